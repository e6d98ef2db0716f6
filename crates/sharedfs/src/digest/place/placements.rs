//! Everything a batch places, in the order of the nodes of its view.

use super::mapped::MappedWrites;
use super::overwrites::Overwrites;
use super::spans::Spans;
use cuesta_format::wire::Placed;
use cuesta_format::{BlockAddress, Extent, InodeNumber};
use std::ops::Range;

/// What becomes of a range of a file's blocks: these extents of [`Placements::extents`], or a hole.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which node of the view.
    pub node: u32,
    /// The blocks.
    pub blocks: Range<u64>,
    /// Their new extents.
    pub extents: Range<usize>,
}

/// Everything a batch places.
#[derive(Debug, Default)]
pub struct Placements {
    /// In file order, per node.
    pub changes: Vec<Change>,
    /// The new extents.
    pub extents: Vec<Extent>,
    /// The same, as the session is told.
    pub placed: Vec<Placed>,
    /// Content that goes over committed blocks, when all else is in its place.
    pub overwrites: Overwrites,
    /// Content that goes into files in mapped mode, then.
    pub mapped: MappedWrites,
    /// Bytes copied.
    pub bytes_copied: u64,
    /// Blocks that were written in part, and found damaged.
    pub damaged: Vec<(InodeNumber, BlockAddress)>,
    /// Files of which a disk lost content that the session staged.
    pub lost: Vec<InodeNumber>,
    pub(super) spans: Spans,
}

impl Placements {
    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.extents.clear();
        self.placed.clear();
        self.overwrites.clear();
        self.mapped.clear();
        self.bytes_copied = 0;
        self.damaged.clear();
        self.lost.clear();
    }
}
