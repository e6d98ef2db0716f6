//! Whether pages of a library's text are still the file's, by the kernel's page map. Pages that were
//! written (by a debugger or a probe, for breakpoints) must not be replaced.

use rustix::fs::{Mode, OFlags, open};

use crate::patch::binaries::layout::PAGE_BYTES;
use crate::patch::cache::own_file::Descriptor;
use crate::patch::cache::sites::read_exactly;

/// Entries looked at in one step.
const PAGES_A_TIME: usize = 384;

/// The page map of this process.
#[derive(Debug)]
pub struct PageMap(Descriptor);

impl PageMap {
    /// Opens it.
    pub fn open() -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        open(c"/proc/self/pagemap", flags, Mode::empty()).ok().map(|file| Self(Descriptor::new(file)))
    }

    /// Whether no page of the range is a copy of this process's own.
    pub fn is_unwritten(&self, start: usize, length: usize) -> bool {
        const IN_MEMORY: u64 = 1 << 63 | 1 << 62;
        const OF_FILE: u64 = 1 << 61;
        let mut bytes = [0u8; PAGES_A_TIME * 8];
        let (first, end) = (start / PAGE_BYTES, (start + length) / PAGE_BYTES);
        (first..end).step_by(PAGES_A_TIME).all(|page| {
            let bytes = &mut bytes[..(end - page).min(PAGES_A_TIME) * 8];
            read_exactly(&self.0, bytes, (page * 8) as u64).is_some()
                && bytes.as_chunks::<8>().0.iter().all(|entry| {
                    let entry = u64::from_ne_bytes(*entry);
                    entry & IN_MEMORY == 0 || entry & OF_FILE != 0
                })
        })
    }
}
