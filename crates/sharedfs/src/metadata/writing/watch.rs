//! Caches of metadata learn that a commit changed it.

use crate::metadata::codec::CHUNK_INODES;
use cuesta_format::InodeNumber;
use std::ops::Range;

/// The inodes and directories that a commit changed, or would have changed had it not failed.
#[derive(Debug, Default)]
pub struct Changed {
    pub(crate) chunks: Vec<u64>,
    /// Directories in which a name was made, changed or removed.
    pub directories: Vec<InodeNumber>,
}

impl Changed {
    /// Runs of inode numbers, in which all inodes lie that were made, changed or removed.
    pub fn numbers(&self) -> impl Iterator<Item = Range<u64>> {
        self.chunks.iter().map(|chunk| {
            let first = chunk.saturating_mul(CHUNK_INODES);
            first..first.saturating_add(CHUNK_INODES)
        })
    }
}

/// Is told of every commit before the committer knows that it is done.
pub trait Watch: Send + Sync {
    /// Something changed; snapshots taken from now on show it.
    fn changed(&self, changed: &Changed);
}
