//! Inodes as they are sent in parcels, kept from one question to the next.
//!
//! Programs come into the same tree again and again, and most of it did not change meanwhile: a session is sent what the last one was
//! sent. A commit drops what it changes before the committer goes on ([`Watch`]), so before any lease moves because of
//! it. So what is found here *after* a lease was granted is what the lease is on.

use crate::metadata::{Changed, Watch};
use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// Numbers of a run.
pub(super) const RUN_NUMBERS: u64 = 64;
/// More is not kept: all is dropped then.
const BYTES_MAX: usize = 16 << 20;
/// What keeping one thing costs beside its bytes, about.
const ENTRY_BYTES: usize = 128;
/// A directory of more names is left to a question of its own.
pub(super) const NAMES_MAX: usize = 4096;

/// Inodes with near numbers. Files in many pieces, in mapped mode or with lost content, and what has no name any more, are left out: those are
/// left to questions of their own.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Files and symbolic links, and where each one ends in `bytes`.
    pub(super) items: Vec<(InodeNumber, usize)>,
    pub(super) bytes: Box<[u8]>,
    pub(super) directories: Vec<InodeNumber>,
}

impl Run {
    /// Those whose numbers lie in `numbers`, in order.
    pub(crate) fn within(&self, numbers: &Range<u64>, directories: bool) -> Vec<InodeNumber> {
        let mut found: Vec<_> = self.items.iter().map(|&(inode, _)| inode).collect();
        if directories && !self.directories.is_empty() {
            found.extend_from_slice(&self.directories);
            found.sort_unstable();
        }
        found.retain(|inode| numbers.contains(&inode.0));
        found
    }

    pub(super) fn item(&self, inode: InodeNumber) -> Option<&[u8]> {
        let at = self.items.binary_search_by_key(&inode, |&(inode, _)| inode).ok()?;
        let start = at.checked_sub(1).map_or(0, |before| self.items[before].1);
        self.bytes.get(start..self.items[at].1)
    }
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    pub(super) kept: Mutex<Cache>,
}

#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Commits so far: an item read before a commit is not kept behind it.
    pub(super) commits: u64,
    pub(super) runs: HashMap<u64, Arc<Run>>,
    pub(super) directories: HashMap<InodeNumber, Arc<[u8]>>,
    pub(super) bytes: usize,
}

impl Cache {
    /// Makes room for so many bytes more, which were read when there had been `commits`. `false`: they may be outdated.
    pub(super) fn admits(&mut self, bytes: usize, commits: u64) -> bool {
        if self.commits != commits || bytes > BYTES_MAX / 4 {
            return false;
        }
        if self.bytes + bytes > BYTES_MAX {
            *self = Cache { commits, ..Cache::default() };
        }
        self.bytes += bytes;
        true
    }

    fn drop_directory(&mut self, directory: InodeNumber) {
        if let Some(names) = self.directories.remove(&directory) {
            self.bytes -= cost(names.len());
        }
    }
}

pub(super) fn cost(bytes: usize) -> usize {
    bytes + ENTRY_BYTES
}

pub(super) fn cost_of_run(run: &Run) -> usize {
    cost(run.bytes.len() + size_of_val(&run.items[..]) + size_of_val(&run.directories[..]))
}

impl Watch for Packed {
    fn changed(&self, changed: &Changed) {
        let mut kept = self.kept.lock();
        kept.commits += 1;
        if kept.bytes == 0 {
            return;
        }
        for numbers in changed.numbers() {
            if let Some(run) = kept.runs.remove(&(numbers.start / RUN_NUMBERS)) {
                kept.bytes -= cost_of_run(&run);
            }
            numbers.for_each(|number| kept.drop_directory(InodeNumber(number)));
        }
        changed.directories.iter().for_each(|&directory| kept.drop_directory(directory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_read_before_a_commit_is_not_kept_behind_it() {
        let packed = Packed::default();
        assert!(packed.kept.lock().admits(100, 0));
        packed.changed(&Changed::default());
        assert!(!packed.kept.lock().admits(100, 0), "a commit came meanwhile");
        assert!(packed.kept.lock().admits(100, 1));
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let packed = Packed::default();
        let mut kept = packed.kept.lock();
        assert!(!kept.admits(BYTES_MAX, 0));
        for number in 0..1000 {
            assert!(kept.admits(BYTES_MAX / 8, 0));
            kept.runs.insert(number, Arc::default());
        }
        assert!(kept.runs.len() <= 8 && kept.bytes <= BYTES_MAX, "{} runs", kept.runs.len());
    }
}
