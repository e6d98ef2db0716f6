//! Which pages of a mapped file the kernel has in its page cache.

use super::shared::SharedMemory;
use std::ops::Range;
use syscalls::{Sysno, raw_syscall};

impl SharedMemory {
    /// Ranges of whole pages that a part of a mapped file needs from its disk, as offsets in this memory. None, where the
    /// kernel does not say: it answers only those who may write the file.
    #[must_use]
    pub fn missing(&self, offset: u64, bytes: u64) -> Vec<Range<u64>> {
        let page = rustix::param::page_size() as u64;
        let first = offset / page * page;
        let end = offset.saturating_add(bytes).next_multiple_of(page).min(self.len().next_multiple_of(page));
        let Some(len) = end.checked_sub(first).filter(|&len| bytes > 0 && len > 0) else { return Vec::new() };
        let Ok(start) = self.range(first, 0) else { return Vec::new() };
        let mut resident = vec![1u8; (len / page) as usize];
        // SAFETY: the pages are this memory's own, and `resident` has a byte for each of them.
        let told = unsafe { raw_syscall!(Sysno::mincore, start, len as usize, resident.as_mut_ptr()) };
        if told != 0 {
            return Vec::new();
        }
        let mut missing: Vec<Range<u64>> = Vec::new();
        for (number, _) in resident.iter().enumerate().filter(|(_, byte)| **byte & 1 == 0) {
            let at = first + number as u64 * page;
            match missing.last_mut().filter(|last| last.end == at) {
                Some(last) => last.end += page,
                None => missing.push(at..at + page),
            }
        }
        missing
    }

    /// Has the kernel read needed pages from the disk and no others, from now on: a fault takes one page, and
    /// [`SharedMemory::will_need`] the range that it names.
    pub fn read_no_more_than_needed(&self) {
        let len = self.len() as usize;
        // SAFETY: the pages are this memory's own, and the advice changes no byte of them.
        let _ = unsafe { rustix::mm::madvise(self.as_ptr().cast(), len, rustix::mm::Advice::Random) };
    }
}

#[cfg(test)]
mod tests {
    use crate::{Mapping, Protection};
    use cuesta_format::Medium;
    use rustix::fs::Advice;
    use std::fs::File;

    #[test]
    fn pages_that_the_cache_lost_are_missing_until_they_are_read() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 16 * 4096]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let memory = Mapping::open(&path, Protection::ReadOnly, Medium::Block).unwrap();
        memory.read_no_more_than_needed();
        let missing = |offset, bytes| -> Vec<(u64, u64)> {
            memory.missing(offset, bytes).iter().map(|pages| (pages.start / 4096, pages.end / 4096)).collect()
        };
        assert_eq!(missing(0, 16 * 4096), []);
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        assert_eq!(missing(5000, 8192), [(1, 4)]);
        memory.read(5 * 4096, &mut [0]).unwrap();
        assert_eq!(missing(0, 16 * 4096), [(0, 5), (6, 16)]);
        assert_eq!(missing(1 << 40, 1), []);
        assert_eq!(missing(100, 0), []);
    }
}
