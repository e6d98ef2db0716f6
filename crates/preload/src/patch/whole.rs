//! The patched C library as a file of its own, which the dynamic loader maps as it maps any library, and the patched
//! loader, which the kernel maps: nothing is left to do for them as a program starts but to fill their slots. Mapping a
//! copy over what was mapped (`copy`) costs each program ten system calls and as many page faults, each.
//!
//! ```text
//!   the library's file, its sites patched | headers of segments | what this is | stubs
//! ```
//!
//! A segment more lies behind the file. It lies as far from the file's start as from the library's, because that
//! is where the loader looks for headers. The slots lie behind the library's variables, where its last page was
//! zero. One more header, of a kind no loader knows, says where they are, and which build wrote the stubs.
//!
//! The loader finds it in a list of libraries (`library_list`) that only the copies of the loader read, which programs of the
//! store are started with. It notes under which name and number it has the file; both are made those of the library
//! (`namesake`), so that a program that asks for the library by a path of the system's gets this one, not a second.

use crate::arch::Slots;
use crate::patch::Site;
use crate::patch::binaries::elf::Elf;
use crate::patch::binaries::layout::{Layout, PAGE_BYTES};
use crate::patch::binaries::mark::{HEADER_BYTES, Identity, Mark, flags, header, kind, set_word, word};
use crate::patch::cache::own_file::Descriptor;
use crate::patch::cache::sites::{Cache, file_name, read_exactly};
use crate::patch::writing::is_wanted;
use crate::process;
use rustix::fs::{Mode, OFlags, Stat, fstat, open};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering};

const PT_GNU_STACK: u32 = 0x6474_e551;

const FILE_BYTES_MAX: usize = 64 << 20;

/// Fills the slots of the whole file at `base`, if its stubs are there; `None` if they are not, or are of another
/// build of ours, with which they cannot speak.
///
/// # Safety
/// A whole file with this mark is mapped at `base`, if `is_there` says so.
pub unsafe fn fill(mark: Mark, base: usize, is_there: bool) -> Option<()> {
    let writer = OWN_WRITER.load(Ordering::Relaxed);
    (is_there && mark.writer == writer).then_some(())?;
    // SAFETY: the place is the library's alone, in memory that can be written, and aligned.
    unsafe { ((base + mark.slots) as *mut Slots).write(Slots::new(process::forked_flag())) };
    Some(())
}

/// What this build is known by as a writer of stubs; 0 until that is known.
static OWN_WRITER: AtomicU64 = AtomicU64::new(0);

/// Notes the build-id of this library.
pub fn know_own_build(own_build_id: &[u8]) {
    OWN_WRITER.store(writer(own_build_id).unwrap_or(0), Ordering::Relaxed);
}

/// The number by which a writer is known.
fn writer(own_build_id: &[u8]) -> Option<u64> {
    own_build_id.first_chunk().map(|id| u64::from_le_bytes(*id))
}

/// The library of the system's that a whole file is to stand for.
#[derive(Debug)]
pub struct Original<'a> {
    /// Where the loader finds it.
    pub path: &'a CStr,
    /// Its attributes, from the kernel.
    pub stat: Stat,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Original<'_> {
    /// The path of the whole file in its place, which is made if there is none; it is left alone if there is, since other
    /// processes' programs map it.
    pub fn in_its_place(&self, cache: &Cache, own_build_id: &[u8]) -> Option<CString> {
        let read = |offset: u64, bytes: &mut [u8]| {
            let start = usize::try_from(offset).ok()?;
            bytes.copy_from_slice(self.bytes.get(start..start.checked_add(bytes.len())?)?);
            Some(())
        };
        let build = Elf::of_file(&read)?.build_id(&read)?;
        let stat = &self.stat;
        let number =
            [stat.st_dev, stat.st_ino, stat.st_mtime as u64, stat.st_ctime as u64, stat.st_ctime_nsec];
        let number = number
            .iter()
            .fold(0u64, |sum, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
        let base = self.path.to_bytes().rsplit(|byte| *byte == b'/').next()?;
        let writer = writer(own_build_id)?;
        let name = file_name(base, &[&build, &writer.to_le_bytes(), &number.to_le_bytes()]);
        let path = cache.path_of(&name);
        // The loader's note of the path has to have room for the library's.
        if path.as_bytes().len() < self.path.to_bytes().len() {
            return None;
        }
        if !cache.has_in_use(&name) {
            let sites = cache.load(&build)?;
            cache.replace_with(&name, None, |own| {
                let identity = Identity {
                    original: (stat.st_dev, stat.st_ino),
                    own: (own.st_dev, own.st_ino),
                    path_bytes: self.path.to_bytes().len(),
                };
                with_stubs(&self.bytes, &sites, writer, Some((identity, self.path)))
            });
        }
        cache.has_in_use(&name).then_some(path)
    }
}

/// Reads a library of the system's.
pub fn read_original(path: &CStr) -> Option<Original<'_>> {
    let (bytes, stat) = read_file(path)?;
    Some(Original { path, stat, bytes })
}

/// A file's content, and the kernel's attributes of it.
pub fn read_file(path: &CStr) -> Option<(Vec<u8>, Stat)> {
    let file = Descriptor::new(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?);
    let stat = fstat(&file).ok()?;
    let mut bytes = vec![0; usize::try_from(stat.st_size).ok().filter(|size| *size <= FILE_BYTES_MAX)?];
    read_exactly(&file, &mut bytes, 0)?;
    Some((bytes, stat))
}

/// `answering`, a copy of the loader `original` that has other code in some places, with its sites led to stubs of its own.
/// It stands for nothing: the kernel maps it, and notes no name.
pub fn loader(answering: &[u8], original: &[u8], cache: &Cache, own_build_id: &[u8]) -> Option<Vec<u8>> {
    let read = |offset: u64, bytes: &mut [u8]| {
        let start = usize::try_from(offset).ok()?;
        bytes.copy_from_slice(original.get(start..start.checked_add(bytes.len())?)?);
        Some(())
    };
    let sites = cache.load(&Elf::of_file(&read)?.build_id(&read)?)?;
    let is_as_it_was = |site: &Site| {
        let place = site.start as usize..site.start as usize + usize::from(site.length);
        original.get(place.clone()) == answering.get(place)
    };
    if !sites.iter().all(is_as_it_was) {
        return None;
    }
    with_stubs(answering, &sites, writer(own_build_id)?, None)
}

/// The file with its sites led to stubs of its own, and with the identity that it takes. The loader takes none. It gives out
/// the rest of its last page behind its variables, so its slots have a page of their own.
fn with_stubs(
    file: &[u8],
    sites: &[Site],
    writer: u64,
    identity: Option<(Identity, &CStr)>,
) -> Option<Vec<u8>> {
    let table = word(file, 32)? as usize;
    let count = usize::from(u16::from_le_bytes(file.get(56..58)?.try_into().ok()?));
    let headers = file.get(table..table + count * HEADER_BYTES)?.chunks_exact(HEADER_BYTES);
    let mut headers: Vec<[u8; HEADER_BYTES]> = headers.map_while(|header| header.try_into().ok()).collect();
    let is_loaded = |header: &[u8; HEADER_BYTES]| kind(header) == libc::PT_LOAD;
    let last = headers.iter().rposition(is_loaded)?;
    let has_all = headers.iter().any(|header| kind(header) == PT_GNU_STACK);
    if !has_all || flags(&headers[last]) & libc::PF_W == 0 {
        return None;
    }
    let variables = word(&headers[last], 16)?;
    let unit = if identity.is_some() { 8 } else { PAGE_BYTES as u64 };
    let slots = (variables + word(&headers[last], 40)?).next_multiple_of(unit) as usize;
    let end = slots + size_of::<Slots>();
    set_word(&mut headers[last], 40, end as u64 - variables);

    let start = end.max(file.len()).next_multiple_of(PAGE_BYTES);
    let table_bytes = (count + 2) * HEADER_BYTES;
    let identity_at = start + table_bytes;
    let mut named = Vec::new();
    if let Some((identity, path)) = identity {
        named.extend_from_slice(&identity.encode());
        named.extend_from_slice(path.to_bytes_with_nul());
    }
    let stubs_at = (identity_at + named.len()).next_multiple_of(16);
    let (wanted, left): (Vec<Site>, Vec<Site>) = sites.iter().partition(|site| is_wanted(site));
    let place = |site: &Site| site.start as usize..site.start as usize + usize::from(site.length);
    // In the file and in memory code has to stand at the same place.
    let code = headers.iter().find(|header| is_loaded(header) && flags(&header[..]) & libc::PF_X != 0)?;
    let (code_start, code_end) =
        (word(code, 8)? as usize, word(code, 8)?.checked_add(word(code, 32)?)? as usize);
    let is_there = |site: &Site| {
        let (start, syscall) = (site.start as usize, usize::from(site.syscall));
        (code_start..code_end).contains(&start)
            && place(site).end <= code_end
            && file.get(start + syscall..start + syscall + 2) == Some(&[0x0f, 0x05])
    };
    if word(code, 8)? != word(code, 16)? || !wanted.iter().all(is_there) {
        return None;
    }
    let layout = Layout::at(0, &wanted, slots, stubs_at, |site| &file[place(site)]);
    let behind = (stubs_at + layout.stubs.len()).next_multiple_of(PAGE_BYTES);

    for header in headers.iter_mut().filter(|header| kind(&header[..]) == libc::PT_PHDR) {
        let words = [start, start, start, table_bytes, table_bytes, 8].map(|word| word as u64);
        *header = self::header(libc::PT_PHDR, libc::PF_R, words);
    }
    let length = behind - start;
    let words = [start, start, start, length, length, PAGE_BYTES].map(|word| word as u64);
    headers.insert(last + 1, header(libc::PT_LOAD, libc::PF_R | libc::PF_X, words));
    let identity = identity.map(|_| identity_at);
    let mark = Mark { slots, identity, writer, patched: wanted.len() as u32, left: left.len() as u32 };
    headers.push(mark.encode());

    let mut whole = file.to_vec();
    for (start, jump) in &layout.jumps {
        whole[*start..start + jump.len()].copy_from_slice(jump);
    }
    whole.resize(start, 0);
    whole.extend_from_slice(headers.as_flattened());
    whole.extend_from_slice(&named);
    whole.resize(stubs_at, 0);
    whole.extend_from_slice(&layout.stubs);
    whole.resize(behind, 0);
    set_word(&mut whole, 32, start as u64);
    whole[56..58].copy_from_slice(&(headers.len() as u16).to_le_bytes());
    Some(whole)
}
