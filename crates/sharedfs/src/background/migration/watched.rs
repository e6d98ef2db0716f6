//! The blocks of files that are being copied: whether their content changed since the copy began.
//!
//! A digest holds the digester. It writes its content first, and then notes what it changed. The mover calls
//! [`Watched::begin`] before it copies, and asks [`Watched::is_unchanged`] while it holds the digester itself. If the blocks are unchanged then,
//! the copy equals them.

use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The blocks that are watched.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Of how many files, so that a digest that changes others takes no lock.
    count: AtomicUsize,
    files: Mutex<HashMap<InodeNumber, File>>,
}

/// Blocks of one file.
#[derive(Debug)]
struct File {
    /// In its order.
    blocks: Vec<Range<u64>>,
    has_changed: bool,
}

impl Watched {
    /// From now on changes of these blocks are noted, and of no other ones.
    pub(super) fn begin(&self, watched: impl IntoIterator<Item = (InodeNumber, Vec<Range<u64>>)>) {
        let mut files = self.files.lock();
        files.clear();
        let file = |blocks| File { blocks, has_changed: false };
        files.extend(watched.into_iter().map(|(inode, blocks)| (inode, file(blocks))));
        self.count.store(files.len(), Ordering::SeqCst);
    }

    /// Whether any file is watched.
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Content of some blocks of a file changed, or where it lies.
    pub(crate) fn note_change(&self, inode: InodeNumber, changed: &Range<u64>) {
        if self.is_any()
            && let Some(file) = self.files.lock().get_mut(&inode)
        {
            let behind = file.blocks.partition_point(|blocks| blocks.end <= changed.start);
            file.has_changed |= file.blocks.get(behind).is_some_and(|blocks| blocks.start < changed.end);
        }
    }

    /// Whether no watched block of the file has changed.
    pub(super) fn is_unchanged(&self, inode: InodeNumber) -> bool {
        self.files.lock().get(&inode).is_some_and(|file| !file.has_changed)
    }

    /// No file is watched any more.
    pub(super) fn end(&self) {
        self.begin([]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_watched_blocks_counts() {
        let (file, other) = (InodeNumber(7), InodeNumber(8));
        let watched = Watched::default();
        watched.begin([(file, vec![10..20, 30..40])]);
        watched.note_change(other, &(0..u64::MAX));
        for elsewhere in [0..10, 20..30, 40..50] {
            watched.note_change(file, &elsewhere);
        }
        assert!(watched.is_unchanged(file) && !watched.is_unchanged(other));
        watched.note_change(file, &(19..20));
        assert!(!watched.is_unchanged(file));
        watched.begin([(file, vec![10..20, 30..40])]);
        assert!(watched.is_unchanged(file));
        watched.note_change(file, &(0..u64::MAX));
        assert!(!watched.is_unchanged(file));
        watched.end();
        assert!(!watched.is_unchanged(file));
    }
}
