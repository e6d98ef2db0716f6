//! A patched copy of a library's file, kept between processes and mapped over the library's text:
//! patching in place costs every process a copy of some hundred and fifty pages, a mapping costs a few
//! page faults and shares its pages.
//!
//! ```text
//!   the library's file, its sites patched | a page for slots | stubs | a page that says what this is
//! ```
//!
//! A whole ELF file, at the offsets of the original, so that profilers find symbols in it. The stubs lie
//! at a fixed distance below the library. A copy is believed if the directory and the file are private,
//! if it names the build of the library and of ourselves, and if no process has touched it since: it carries
//! the time of modification it was given. It is written only if the file on disk holds the text in
//! memory, and mapped only if no page of that was written (a debugger's breakpoints would be lost).

use std::ffi::CString;

use rustix::fs::Timespec;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};

use crate::arch::Slots;
use crate::patch::binaries::image::{Image, Segment};
use crate::patch::binaries::layout::{Layout, PAGE_BYTES};
use crate::patch::cache::own_file::Descriptor;
use crate::patch::cache::sites::{Cache, file_name, read_exactly};
use crate::patch::page_map::PageMap;
use crate::patch::writing::whole_pages;
use crate::patch::{Site, whole};

const MAGIC: &[u8; 8] = b"CUCOPY_2";
/// How far below the library its stubs lie: past everything loaded with it, mostly.
const DISTANCE: usize = 128 << 20;
/// How much of our build-id tells our builds apart in a name; the whole of it is inside.
const OWN_ID_BYTES: usize = 8;
/// Smaller libraries are patched in place: it costs a few pages.
const TEXT_BYTES_MIN: usize = 64 * 1024;

/// Sites of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Sites patched.
    pub patched: u32,
    /// Sites of no interest.
    pub left: u32,
}

/// Whether a copy took the library's place.
#[derive(Debug)]
pub enum Mapping {
    /// It did.
    Done(Counts),
    /// There is none, or none to believe.
    Absent,
    /// There is one, but it cannot be mapped here.
    Impossible,
}

/// The last page of a copy.
#[derive(Debug, PartialEq, Eq)]
struct Trailer {
    /// Where the page for slots stands.
    area: usize,
    counts: Counts,
    modified: (i64, i64),
}

/// Copies of one library, made by one build of ours.
#[derive(Debug)]
pub struct Copies<'a> {
    cache: &'a Cache,
    image: &'a Image,
    text: Segment,
    own_build_id: &'a [u8],
    key: Vec<u8>,
}

impl<'a> Copies<'a> {
    /// `None` if this library is not worth a copy, or if builds cannot be told apart.
    pub fn new(cache: &'a Cache, image: &'a Image, own_build_id: &'a [u8]) -> Option<Self> {
        let [text] = image.executable[..] else { return None };
        if text.length < TEXT_BYTES_MIN || image.build_id.is_empty() || own_build_id.is_empty() {
            return None;
        }
        let mut key = MAGIC.to_vec();
        for id in [own_build_id, image.build_id] {
            key.push(id.len() as u8);
            key.extend_from_slice(id);
        }
        Some(Self { cache, image, text, own_build_id, key })
    }

    /// Maps the copy over the library.
    pub fn map(&self, pages: &PageMap, slots: Slots) -> Mapping {
        let Some((file, size, trailer)) = self.open() else { return Mapping::Absent };
        let (start, length) = whole_pages(self.image.base + self.text.start, self.text.length);
        let is_unwritten = pages.is_unwritten(start, length);
        match is_unwritten.then(|| self.map_file(&file, size, &trailer, slots)).flatten() {
            Some(()) => Mapping::Done(trailer.counts),
            None => Mapping::Impossible,
        }
    }

    /// The copy, its size, and what its last page says.
    fn open(&self) -> Option<(Descriptor, usize, Trailer)> {
        let (file, stat) = self.cache.open_file(&self.name())?;
        let size = usize::try_from(stat.st_size).ok()?;
        let start = size.checked_sub(PAGE_BYTES).filter(|start| start % PAGE_BYTES == 0)?;
        let mut page = [0; 256];
        read_exactly(&file, &mut page, start as u64)?;
        let trailer = Trailer::decode(&page, &self.key)?;
        let whole = trailer.area + PAGE_BYTES < start && self.text.in_file + self.text.length <= trailer.area;
        let untouched = trailer.modified == (stat.st_mtime, stat.st_mtime_nsec as i64);
        (whole && untouched && trailer.area % PAGE_BYTES == 0).then_some((file, size, trailer))
    }

    fn map_file(&self, file: &Descriptor, size: usize, trailer: &Trailer, slots: Slots) -> Option<()> {
        let area_bytes = size - PAGE_BYTES - trailer.area;
        let area = self.image.base.checked_sub(DISTANCE)? as *mut core::ffi::c_void;
        let code = ProtFlags::READ | ProtFlags::EXEC;
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        let new = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        let (text, text_bytes) = whole_pages(self.image.base + self.text.start, self.text.length);
        let in_file = (self.text.in_file / PAGE_BYTES * PAGE_BYTES) as u64;
        // SAFETY: the area is mapped only where nothing is; it is ours alone. The text is replaced, in one
        // step, by the same text with its sites patched, which lead to stubs and slots that are in place.
        unsafe {
            let mapped = mmap(area, area_bytes, writable, new, file, trailer.area as u64).ok()?;
            let done = mapped == area && {
                area.cast::<Slots>().write(slots);
                mprotect(area, area_bytes, MprotectFlags::READ | MprotectFlags::EXEC).is_ok()
                    && mmap(
                        text as *mut _,
                        text_bytes,
                        code,
                        MapFlags::PRIVATE | MapFlags::FIXED,
                        file,
                        in_file,
                    )
                    .is_ok()
            };
            if !done {
                let _ = munmap(mapped, area_bytes);
                return None;
            }
        }
        Some(())
    }

    /// Makes the copy for the processes to come. Call before the library is patched in this one.
    pub fn write(&self, sites: &[Site], left: usize) -> Option<()> {
        let text = self.text;
        let mut bytes = whole::read_file(self.image.path)?.0;
        let on_disk = bytes.get_mut(text.in_file..text.in_file + text.length)?;
        if on_disk != self.image.code(text.start, text.length) {
            return None;
        }
        let layout = Layout::new(self.image, sites, self.image.base.checked_sub(DISTANCE)?);
        for (start, jump) in &layout.jumps {
            let start = start - text.start;
            on_disk[start..start + jump.len()].copy_from_slice(jump);
        }
        bytes.resize(bytes.len().next_multiple_of(PAGE_BYTES), 0);
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let trailer = Trailer {
            area: bytes.len(),
            counts: Counts { patched: sites.len() as u32, left: left as u32 },
            modified: (now.tv_sec, now.tv_nsec),
        };
        bytes.resize(bytes.len() + PAGE_BYTES, 0);
        bytes.extend_from_slice(&layout.stubs);
        bytes.resize(bytes.len().next_multiple_of(PAGE_BYTES), 0);
        let end = bytes.len();
        bytes.extend_from_slice(&trailer.encode(&self.key));
        bytes.resize(end + PAGE_BYTES, 0);
        self.cache.replace(&self.name(), &bytes, Some(Timespec { tv_sec: now.tv_sec, tv_nsec: now.tv_nsec }));
        Some(())
    }

    /// Begins with the library's own name, for those who read it in a list of mappings, and ends with ours:
    /// two builds of this library that take turns must not replace each other's copies.
    fn name(&self) -> CString {
        let base = self.image.path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let own = &self.own_build_id[..self.own_build_id.len().min(OWN_ID_BYTES)];
        file_name(base, &[self.image.build_id, own])
    }
}

impl Trailer {
    fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut bytes = key.to_vec();
        bytes.extend_from_slice(&(self.area as u64).to_le_bytes());
        bytes.extend_from_slice(&self.modified.0.to_le_bytes());
        bytes.extend_from_slice(&self.modified.1.to_le_bytes());
        bytes.extend_from_slice(&self.counts.patched.to_le_bytes());
        bytes.extend_from_slice(&self.counts.left.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], key: &[u8]) -> Option<Self> {
        let (area, rest) = bytes.strip_prefix(key)?.split_first_chunk()?;
        let (seconds, rest) = rest.split_first_chunk()?;
        let (nanoseconds, rest) = rest.split_first_chunk()?;
        let (patched, rest) = rest.split_first_chunk()?;
        let (left, _) = rest.split_first_chunk()?;
        let counts = Counts { patched: u32::from_le_bytes(*patched), left: u32::from_le_bytes(*left) };
        let modified = (i64::from_le_bytes(*seconds), i64::from_le_bytes(*nanoseconds));
        Some(Self { area: usize::try_from(u64::from_le_bytes(*area)).ok()?, counts, modified })
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Trailer};

    #[test]
    fn a_trailer_is_read_back_and_only_under_its_own_key() {
        let trailer = Trailer { area: 8192, counts: Counts { patched: 3, left: 4 }, modified: (5, 6) };
        let bytes = trailer.encode(b"key");
        assert_eq!(Trailer::decode(&bytes, b"key"), Some(trailer));
        assert_eq!(Trailer::decode(&bytes, b"kez"), None);
        assert_eq!(Trailer::decode(&bytes[..20], b"key"), None);
    }
}
