//! Which blocks of a file move together: those of a piece of it that do not lie where they are to be.

use crate::metadata::{MetadataError, Snapshot};
use crate::tiers::split_at_arenas;
use cuesta_format::{BLOCK_BYTES, Extent, Geometry, InodeNumber, TierNumber};
use std::ops::Range;

/// The length of a piece of a file. A disk writes so much in one go, and no program waits long for the transaction.
pub(super) const PART_BLOCKS: u64 = (16 << 20) / BLOCK_BYTES;

/// Which blocks of a file move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Those that are not there yet.
    Elsewhere,
    /// Those of this tier.
    Only(TierNumber),
}

/// Where in a file blocks are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// From this block on, as far as a part reaches.
    From(u64),
    /// There, in its order.
    In(&'a [Range<u64>]),
}

/// Blocks of a file that move together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) inode: InodeNumber,
    /// In file order, each in one arena.
    pub(super) extents: Vec<Extent>,
    /// Where the next part of the file begins; `None`: this one is the last.
    pub(super) next: Option<u64>,
}

impl Part {
    /// The blocks at a place of the file that are to move to the tier `to`. There may be none.
    pub(super) fn plan(
        snapshot: &Snapshot,
        geometry: &Geometry,
        inode: InodeNumber,
        place: Place<'_>,
        which: Which,
        to: TierNumber,
    ) -> Result<Part, MetadataError> {
        let from;
        let (pieces, next) = match place {
            Place::In(pieces) => (pieces, None),
            Place::From(block) => {
                let piece = block..block.saturating_add(PART_BLOCKS);
                let next = match snapshot.extents(inode, piece.clone())?.is_empty() {
                    false => Some(piece.end),
                    // A hole of any size, or the end.
                    true => snapshot.extents(inode, piece.end..u64::MAX)?.first().map(|next| next.file_block),
                };
                from = [piece];
                (from.as_slice(), next)
            }
        };
        let moves = |extent: &Extent| match which {
            Which::Elsewhere => extent.address.tier() != to,
            Which::Only(from) => extent.address.tier() == from,
        };
        let mut extents = Vec::new();
        for piece in pieces {
            let there = snapshot.extents(inode, piece.clone())?;
            let inside =
                there.iter().filter(|extent| moves(extent)).filter_map(|extent| inside(extent, piece));
            extents.extend(inside.flat_map(|extent| split_at_arenas(geometry, &extent)));
        }
        Ok(Part { inode, extents, next })
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> u64 {
        self.extents.iter().map(|extent| u64::from(extent.blocks)).sum()
    }
}

/// The part of an extent that lies in a range of the file's blocks.
pub(super) fn inside(extent: &Extent, blocks: &Range<u64>) -> Option<Extent> {
    let (start, end) = (extent.file_block.max(blocks.start), extent.end_block().min(blocks.end));
    (start < end).then(|| Extent {
        file_block: start,
        blocks: (end - start) as u32,
        address: extent.address_of(start),
    })
}
