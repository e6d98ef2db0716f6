//! Runs of blocks, and what a digest takes and frees of them.

use cuesta_format::BlockAddress;

/// Neighbouring blocks of one arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block's address.
    pub address: BlockAddress,
    /// How many.
    pub blocks: u32,
}

/// Blocks that one digest takes and frees, until it commits or is abandoned.
#[derive(Debug, Default)]
pub struct Reservation {
    pub(crate) taken: Vec<Run>,
    pub(crate) freed: Vec<Run>,
    /// Blocks of a window that become a file's as they are.
    pub(crate) adopted: Vec<Run>,
    /// Blocks of windows that no file gets, and no log may name again.
    pub(crate) returned: Vec<Run>,
    blocks_freed: u64,
}

impl Reservation {
    /// Notes that a run is not needed once the digest is committed.
    pub fn free(&mut self, run: Run) {
        self.blocks_freed += u64::from(run.blocks);
        self.freed.push(run);
    }

    /// Blocks freed so far.
    #[must_use]
    pub fn blocks_freed(&self) -> u64 {
        self.blocks_freed
    }

    pub(crate) fn clear(&mut self) {
        self.taken.clear();
        self.freed.clear();
        self.adopted.clear();
        self.returned.clear();
        self.blocks_freed = 0;
    }
}
