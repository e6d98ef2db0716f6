//! Arithmetic on a file's extents: what a write of a range leaves, and what it frees.

use cuesta_format::Extent;
use std::ops::Range;

/// What becomes of a run of extents.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Spliced {
    /// The extents afterwards, in order, neighbours joined.
    pub(super) kept: Vec<Extent>,
    /// What the range held before.
    pub(super) freed: Vec<Extent>,
}

/// Replaces what `existing` holds of `range` by `new`, which lies inside the range. Both are in order.
pub(super) fn splice(existing: &[Extent], range: &Range<u64>, new: &[Extent]) -> Spliced {
    let mut spliced = Spliced::default();
    let mut new = new.iter();
    let mut pieces: Vec<Extent> = Vec::with_capacity(existing.len() + new.len() + 1);
    for extent in existing {
        pieces.extend(part(extent, 0..range.start));
        spliced.freed.extend(part(extent, range.clone()));
        if extent.end_block() > range.end {
            pieces.extend(new.by_ref());
            pieces.extend(part(extent, range.end..u64::MAX));
        }
    }
    pieces.extend(new);
    for piece in pieces {
        match spliced.kept.last_mut().filter(|last| joins(last, &piece)) {
            Some(last) => last.blocks += piece.blocks,
            None => spliced.kept.push(piece),
        }
    }
    spliced
}

/// The part of an extent that lies in `range`.
fn part(extent: &Extent, range: Range<u64>) -> Option<Extent> {
    let start = extent.file_block.max(range.start);
    let end = extent.end_block().min(range.end);
    (start < end).then(|| Extent {
        file_block: start,
        blocks: (end - start) as u32,
        address: extent.address_of(start),
    })
}

fn joins(first: &Extent, second: &Extent) -> bool {
    first.end_block() == second.file_block
        && first.address_of(first.end_block() - 1).plus(cuesta_format::BLOCK_BYTES) == second.address
        && first.blocks.checked_add(second.blocks).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::{BLOCK_BYTES, BlockAddress};

    fn extent(file_block: u64, blocks: u32, block_address: u64) -> Extent {
        Extent { file_block, blocks, address: BlockAddress(block_address * BLOCK_BYTES) }
    }

    #[test]
    fn the_middle_is_replaced_and_freed() {
        let spliced = splice(&[extent(0, 10, 100)], &(3..5), &[extent(3, 2, 500)]);
        assert_eq!(spliced.kept, [extent(0, 3, 100), extent(3, 2, 500), extent(5, 5, 105)]);
        assert_eq!(spliced.freed, [extent(3, 2, 103)]);
    }

    #[test]
    fn neighbours_join() {
        let spliced = splice(&[extent(0, 4, 100)], &(4..8), &[extent(4, 4, 104)]);
        assert_eq!(spliced.kept, [extent(0, 8, 100)]);
        assert_eq!(spliced.freed, []);
    }

    #[test]
    fn a_truncate_frees_the_tail_and_a_hole_stays_a_hole() {
        let existing = [extent(0, 4, 100), extent(10, 4, 200), extent(20, 4, 300)];
        let spliced = splice(&existing, &(12..u64::MAX), &[]);
        assert_eq!(spliced.kept, [extent(0, 4, 100), extent(10, 2, 200)]);
        assert_eq!(spliced.freed, [extent(12, 2, 202), extent(20, 4, 300)]);
        assert_eq!(splice(&existing, &(5..8), &[]).kept, existing);
        assert_eq!(
            splice(&existing, &(5..6), &[extent(5, 1, 9)]).kept,
            [existing[0], extent(5, 1, 9), existing[1], existing[2]]
        );
    }
}
