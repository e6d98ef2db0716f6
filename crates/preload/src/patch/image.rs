//! The loaded libraries, read from memory: segments, build-id, and where functions start.

use core::ffi::{CStr, c_int, c_void};

use libc::{dl_phdr_info, size_t};

/// Base names of the libraries whose system calls are intercepted.
const FAMILY: [&str; 5] = ["libc.so", "ld-linux", "libpthread.so", "librt.so", "libc-"];
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const NT_GNU_BUILD_ID: u32 = 3;

/// One library of the family, as mapped.
#[derive(Debug)]
pub struct Image {
    /// Address that offsets count from.
    pub base: usize,
    /// Past its last byte.
    pub end: usize,
    /// Executable ranges: offset from base, length.
    pub executable: Vec<(usize, usize)>,
    /// GNU build-id; empty if there is none (then nothing is cached).
    pub build_id: Vec<u8>,
    exception_header: Option<usize>,
}

impl Image {
    /// All loaded libraries of the family.
    pub fn loaded() -> Vec<Image> {
        let mut images: Vec<Image> = Vec::new();
        // SAFETY: the callback only runs during this call and gets back the pointer given here.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut images).cast()) };
        images
    }

    /// The bytes of an executable range.
    pub fn code(&self, range: (usize, usize)) -> &[u8] {
        // SAFETY: a readable, executable segment of a library that is never unloaded (libc, ld.so).
        unsafe { core::slice::from_raw_parts((self.base + range.0) as *const u8, range.1) }
    }

    /// Addresses of functions, from the binary search table of the exception header, sorted.
    pub fn function_starts(&self) -> Vec<u64> {
        const HEADER_ENCODING: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let Some(header) = self.exception_header else { return Vec::new() };
        // SAFETY: PT_GNU_EH_FRAME is mapped readable; the encoding says 4-byte fields: a pointer to
        // .eh_frame, a count, then count pairs relative to the header.
        unsafe {
            if (header as *const [u8; 4]).read_unaligned() != HEADER_ENCODING {
                return Vec::new();
            }
            let count = ((header + 8) as *const u32).read_unaligned() as usize;
            let mut starts: Vec<u64> = (0..count)
                .map(|index| {
                    let offset = ((header + 12 + index * 8) as *const i32).read_unaligned();
                    header.wrapping_add_signed(offset as isize) as u64
                })
                .collect();
            starts.sort_unstable();
            starts
        }
    }
}

extern "C" fn visit(info: *mut dl_phdr_info, _size: size_t, data: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker passes a valid description, and `data` is the vector of `loaded`.
    unsafe {
        let info = &*info;
        if info.dlpi_name.is_null() || !is_family(CStr::from_ptr(info.dlpi_name).to_bytes()) {
            return 0;
        }
        let headers = core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        let images = &mut *data.cast::<Vec<Image>>();
        images.push(describe(info.dlpi_addr as usize, headers));
    }
    0
}

fn is_family(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    FAMILY.iter().any(|member| name.starts_with(member.as_bytes()))
}

/// # Safety
/// `headers` describe an image mapped at `base`.
unsafe fn describe(base: usize, headers: &[libc::Elf64_Phdr]) -> Image {
    let mut image =
        Image { base, end: base, executable: Vec::new(), build_id: Vec::new(), exception_header: None };
    for header in headers {
        let (offset, length) = (header.p_vaddr as usize, header.p_memsz as usize);
        match header.p_type {
            libc::PT_LOAD => {
                image.end = image.end.max(base + offset + length);
                if header.p_flags & libc::PF_X != 0 {
                    image.executable.push((offset, length));
                }
            }
            libc::PT_NOTE if image.build_id.is_empty() => {
                // SAFETY: a mapped note segment, by the caller's word.
                let notes = unsafe { core::slice::from_raw_parts((base + offset) as *const u8, length) };
                image.build_id = build_id(notes).unwrap_or_default();
            }
            PT_GNU_EH_FRAME => image.exception_header = Some(base + offset),
            _ => {}
        }
    }
    image
}

fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    while notes.len() >= 12 {
        let word = |at: usize| u32::from_ne_bytes([notes[at], notes[at + 1], notes[at + 2], notes[at + 3]]);
        let (name, description, kind) = (word(0) as usize, word(4) as usize, word(8));
        let body = 12 + name.next_multiple_of(4);
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" {
            return notes.get(body..body + description).map(<[u8]>::to_vec);
        }
        notes = notes.get(body + description.next_multiple_of(4)..)?;
    }
    None
}
