//! One file of an arena that the session writes by calls. It counts the writes and those of them that the disk has.

use crate::mapped::kept_descriptors::HeldDescriptor;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use cuesta_format::ArenaId;
use cuesta_media::{flush_file, write_back};
use rustix::fd::BorrowedFd;

/// A file of an arena that the session may write.
#[derive(Debug)]
pub(crate) struct ArenaFile {
    arena: ArenaId,
    file: HeldDescriptor,
    /// Where in it the arena begins.
    begins: u64,
    /// How often it was written,
    writes: AtomicU64,
    /// and how many of these writes the disk has.
    flushed: AtomicU64,
    /// The disk failed a write. The kernel tells of that once, and takes the page for written then.
    has_failed: AtomicBool,
}

impl ArenaFile {
    pub(crate) fn of(arena: ArenaId, file: HeldDescriptor, begins: u64) -> ArenaFile {
        ArenaFile {
            arena,
            file,
            begins,
            writes: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
        }
    }

    pub(crate) fn arena(&self) -> ArenaId {
        self.arena
    }

    pub(crate) fn begins(&self) -> u64 {
        self.begins
    }

    /// A write has ended. No flush that began before counts for it.
    pub(crate) fn note_write(&self) {
        self.writes.fetch_add(1, Ordering::Release);
    }

    /// Calls `act` with its descriptor. `None`: this thread has another process's descriptors.
    pub(crate) fn with<R>(&self, act: impl FnOnce(BorrowedFd<'_>) -> R) -> Option<R> {
        self.file.with(act)
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.flushed.load(Ordering::Acquire) < self.writes.load(Ordering::Acquire)
    }

    /// Flushes the file to its disk. Returns whether the flush succeeded.
    pub(crate) fn flush(&self) -> bool {
        self.flush_by(|| match self.file.with(flush_file) {
            Some(flushed) => flushed.inspect_err(|_| self.has_failed.store(true, Ordering::Release)).is_ok(),
            None => false,
        })
    }

    /// Has the disk take a part of the file, before a flush does.
    pub(crate) fn write_back(&self, offset: u64, bytes: u64) {
        if self.file.with(|file| write_back(file, offset, bytes)).is_some_and(|taken| taken.is_err()) {
            self.has_failed.store(true, Ordering::Release);
        }
    }

    fn flush_by(&self, flush: impl FnOnce() -> bool) -> bool {
        let writes = self.writes.load(Ordering::Acquire);
        if self.flushed.load(Ordering::Acquire) >= writes {
            return true;
        }
        let is_flushed = !self.has_failed.load(Ordering::Acquire) && flush();
        if is_flushed {
            self.flushed.fetch_max(writes, Ordering::Release);
        }
        is_flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped::kept_descriptors::KeptDescriptors;
    use std::fs::File;

    impl ArenaFile {
        pub(crate) fn for_tests() -> ArenaFile {
            let file = File::open("/dev/null").unwrap().into();
            ArenaFile::of(ArenaId(3), HeldDescriptor::hold(&KeptDescriptors::default(), file).unwrap(), 0)
        }
    }

    #[test]
    fn a_flush_does_not_count_for_a_write_that_ends_while_it_is_under_way() {
        let file = ArenaFile::for_tests();
        assert!(file.flush_by(|| panic!("nothing was written")));
        file.note_write();
        let flush = || {
            file.note_write();
            true
        };
        assert!(file.flush_by(flush) && file.is_dirty());
        assert!(file.flush_by(|| true) && !file.is_dirty());
    }

    #[test]
    fn a_write_is_flushed_by_whoever_asks_until_a_flush_has_ended() {
        let file = ArenaFile::for_tests();
        file.note_write();
        let also_asks = || {
            let mut has_flushed = false;
            assert!(file.flush_by(|| {
                has_flushed = true;
                true
            }));
            has_flushed
        };
        assert!(file.flush_by(also_asks));
        file.note_write();
        assert!(!file.flush_by(|| false) && file.is_dirty());
    }
}
