//! The file of which blocks are being copied: whether its content changed since the copy began.
//!
//! A digest holds the digester. It writes its content first, and then notes the files that it changed. The mover calls
//! [`Watched::begin`] before it copies, and asks [`Watched::is_unchanged`] while it holds the digester itself. If the file is unchanged then, the
//! copy equals the file.

use cuesta_format::InodeNumber;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file, if one is watched and has not changed.
#[derive(Debug, Default)]
pub(crate) struct Watched(AtomicU64);

impl Watched {
    /// From now on changes of the file are noted, and of no other one.
    pub(super) fn begin(&self, inode: InodeNumber) {
        self.0.store(inode.0, Ordering::SeqCst);
    }

    /// Content of the file changed, or where it lies.
    pub(crate) fn note_change(&self, inode: InodeNumber) {
        let _ = self.0.compare_exchange(inode.0, InodeNumber::NONE.0, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Whether the file has not changed.
    pub(super) fn is_unchanged(&self, inode: InodeNumber) -> bool {
        self.0.load(Ordering::SeqCst) == inode.0
    }

    /// No file is watched any more.
    pub(super) fn end(&self) {
        self.0.store(InodeNumber::NONE.0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_the_watched_file_counts() {
        let (file, other) = (InodeNumber(7), InodeNumber(8));
        let watched = Watched::default();
        watched.begin(file);
        watched.note_change(other);
        assert!(watched.is_unchanged(file) && !watched.is_unchanged(other));
        watched.note_change(file);
        assert!(!watched.is_unchanged(file));
        watched.begin(file);
        assert!(watched.is_unchanged(file));
        watched.end();
        assert!(!watched.is_unchanged(file));
    }
}
