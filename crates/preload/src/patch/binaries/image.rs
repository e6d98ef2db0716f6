//! The loaded libraries, read from memory: segments, build-id, and where functions start.

use core::ffi::{CStr, c_int, c_void};

use libc::{dl_phdr_info, size_t};

use crate::patch::binaries::elf::build_id;
use crate::patch::binaries::mark::Mark;

/// Base names of the libraries whose system calls are intercepted.
const FAMILY: [&str; 5] = ["libc.so", "ld-linux", "libpthread.so", "librt.so", "libc-"];
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
/// The kernel's own, which no file holds.
const KERNELS: &[u8] = b"linux-vdso";

/// One segment of a library.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// First byte, from the library's base.
    pub start: usize,
    /// Its length.
    pub length: usize,
    /// Where it stands in the file.
    pub in_file: usize,
}

/// One library of the family, as mapped.
#[derive(Debug)]
pub struct Image {
    /// Address that offsets count from.
    pub base: usize,
    /// Past its last byte.
    pub end: usize,
    /// Its executable segments.
    pub executable: Vec<Segment>,
    /// The file it was loaded from.
    pub path: &'static CStr,
    /// GNU build-id; empty if there is none (then nothing is cached).
    pub build_id: &'static [u8],
    /// Where the table of functions is.
    pub exception_header: Option<usize>,
    /// It is a whole file of ours.
    pub mark: Option<Mark>,
}

/// The loaded images that concern us.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The libraries of the family.
    pub images: Vec<Image>,
    /// The program and all other libraries.
    pub others: Vec<Image>,
    /// Build-id of this library itself.
    pub own_build_id: &'static [u8],
    /// Where this library itself lies.
    pub own_path: Option<&'static CStr>,
    /// The program's own dynamic section; 0 if it has none.
    pub dynamic: usize,
    is_behind_program: bool,
}

impl Loaded {
    /// Looks at what is loaded now.
    pub fn now() -> Self {
        let mut loaded = Self::default();
        // SAFETY: the callback only runs during this call and gets back the pointer given here.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut loaded).cast()) };
        loaded
    }
}

impl Image {
    /// `length` bytes of an executable segment, from `start` on.
    pub fn code(&self, start: usize, length: usize) -> &[u8] {
        // SAFETY: within a readable, executable segment of a library that is never unloaded (libc, ld.so).
        unsafe { core::slice::from_raw_parts((self.base + start) as *const u8, length) }
    }

    /// Copies bytes of the image, by their address.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let start = usize::try_from(address).ok().filter(|start| *start >= self.base)?;
        start.checked_add(bytes.len()).filter(|end| *end <= self.end)?;
        // Between segments there may be nothing.
        crate::memory::user_memory::read_bytes(start, bytes).ok()
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
    // SAFETY: the dynamic linker passes a valid description, and `data` is the structure of `now`.
    unsafe {
        let info = &*info;
        if info.dlpi_name.is_null() {
            return 0;
        }
        let path: &'static CStr = CStr::from_ptr(info.dlpi_name);
        let headers = core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        let base = info.dlpi_addr as usize;
        let loaded = &mut *data.cast::<Loaded>();
        // The program comes first.
        if !std::mem::replace(&mut loaded.is_behind_program, true) {
            let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
            loaded.dynamic = dynamic.map_or(0, |header| base + header.p_vaddr as usize);
        }
        if is_family(path.to_bytes()) {
            loaded.images.push(describe(base, headers, path));
        } else if holds(base, headers, visit as *const () as usize) {
            loaded.own_build_id = build_id_of(base, headers);
            loaded.own_path = Some(path);
        } else if !path.to_bytes().starts_with(KERNELS) {
            loaded.others.push(describe(base, headers, path));
        }
    }
    0
}

fn holds(base: usize, headers: &[libc::Elf64_Phdr], address: usize) -> bool {
    headers.iter().filter(|header| header.p_type == libc::PT_LOAD).any(|header| {
        let start = base + header.p_vaddr as usize;
        (start..start + header.p_memsz as usize).contains(&address)
    })
}

fn is_family(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    FAMILY.iter().any(|member| name.starts_with(member.as_bytes()))
}

/// # Safety
/// As for [`describe`].
unsafe fn build_id_of(base: usize, headers: &[libc::Elf64_Phdr]) -> &'static [u8] {
    for header in headers.iter().filter(|header| header.p_type == libc::PT_NOTE) {
        let (start, length) = (base + header.p_vaddr as usize, header.p_memsz as usize);
        // SAFETY: a note segment that stays mapped, by the caller's word.
        if let Some(found) = build_id(unsafe { core::slice::from_raw_parts(start as *const u8, length) }) {
            return found;
        }
    }
    &[]
}

/// # Safety
/// `headers` describe an image mapped at `base`, for good.
unsafe fn describe(base: usize, headers: &[libc::Elf64_Phdr], path: &'static CStr) -> Image {
    let mut image = Image {
        base,
        end: base,
        executable: Vec::new(),
        path,
        // SAFETY: by the caller's word.
        build_id: unsafe { build_id_of(base, headers) },
        exception_header: None,
        mark: headers.last().and_then(Mark::of_header),
    };
    for header in headers {
        let (offset, length) = (header.p_vaddr as usize, header.p_memsz as usize);
        match header.p_type {
            libc::PT_LOAD => {
                image.end = image.end.max(base + offset + length);
                if header.p_flags & libc::PF_X != 0 {
                    image.executable.push(Segment {
                        start: offset,
                        length,
                        in_file: header.p_offset as usize,
                    });
                }
            }
            PT_GNU_EH_FRAME => image.exception_header = Some(base + offset),
            _ => {}
        }
    }
    image
}
