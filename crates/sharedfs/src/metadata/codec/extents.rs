//! Arithmetic on a file's extents: a write of a range leaves some, and frees some.

use cuesta_format::Extent;
use std::ops::Range;

/// Passing so many extents costs as much as another look at the table.
const CLOSE_BLOCKS: u64 = 32;

/// Ranges in order, those close together as one.
pub(crate) fn close_together(
    ranges: impl IntoIterator<Item = Range<u64>>,
) -> impl Iterator<Item = Range<u64>> {
    let mut ranges = ranges.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut all = ranges.next()?;
        while let Some(next) = ranges.next_if(|next| next.start <= all.end.saturating_add(CLOSE_BLOCKS)) {
            all.end = all.end.max(next.end);
        }
        Some(all)
    })
}

/// What becomes of a run of extents.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Spliced {
    /// The extents afterwards, in order, neighbours joined.
    pub(crate) kept: Vec<Extent>,
    /// The extents that the range held before.
    pub(crate) freed: Vec<Extent>,
}

/// What becomes of a range of a file's blocks: `new` is all it holds afterwards.
#[derive(Clone, Debug)]
pub struct ExtentWrite<'a> {
    /// The blocks.
    pub blocks: Range<u64>,
    /// In order, inside the range.
    pub new: &'a [Extent],
}

/// Applies writes to what `existing` holds. Both are in order, and the writes do not overlap.
pub(crate) fn splice(existing: &[Extent], writes: &[ExtentWrite<'_>]) -> Spliced {
    let mut spliced =
        Spliced { kept: Vec::with_capacity(existing.len() + 2 * writes.len()), freed: Vec::new() };
    let mut existing = existing.iter().copied();
    let mut next = existing.next();
    for ExtentWrite { blocks, new } in writes {
        while let Some(extent) = next.filter(|extent| extent.file_block < blocks.end) {
            spliced.keep(part(&extent, 0..blocks.start));
            spliced.freed.extend(part(&extent, blocks.clone()));
            next = part(&extent, blocks.end..u64::MAX).or_else(|| existing.next());
        }
        new.iter().for_each(|&extent| spliced.keep(Some(extent)));
    }
    next.into_iter().chain(existing).for_each(|extent| spliced.keep(Some(extent)));
    spliced
}

impl Spliced {
    fn keep(&mut self, piece: Option<Extent>) {
        let Some(piece) = piece else { return };
        match self.kept.last_mut().filter(|last| joins(last, &piece)) {
            Some(last) => last.blocks += piece.blocks,
            None => self.kept.push(piece),
        }
    }
}

/// What differs between two lists in order: each change of the extent that starts at a block.
pub(crate) fn differences<'a>(
    before: &'a [Extent],
    after: &'a [Extent],
) -> impl Iterator<Item = (u64, Option<Extent>)> + 'a {
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let (old, new) = (before.peek().copied(), after.peek().copied());
            let at = [old, new].into_iter().flatten().map(|extent| extent.file_block).min()?;
            let old = before.next_if(|extent| extent.file_block == at);
            let new = after.next_if(|extent| extent.file_block == at);
            if old != new {
                return Some((at, new.copied()));
            }
        }
    })
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

    fn write(existing: &[Extent], blocks: Range<u64>, new: &[Extent]) -> Spliced {
        splice(existing, &[ExtentWrite { blocks, new }])
    }

    #[test]
    fn the_middle_is_replaced_and_freed() {
        let spliced = write(&[extent(0, 10, 100)], 3..5, &[extent(3, 2, 500)]);
        assert_eq!(spliced.kept, [extent(0, 3, 100), extent(3, 2, 500), extent(5, 5, 105)]);
        assert_eq!(spliced.freed, [extent(3, 2, 103)]);
    }

    #[test]
    fn neighbours_join() {
        let spliced = write(&[extent(0, 4, 100)], 4..8, &[extent(4, 4, 104)]);
        assert_eq!(spliced.kept, [extent(0, 8, 100)]);
        assert_eq!(spliced.freed, []);
    }

    #[test]
    fn a_truncate_frees_the_tail_and_a_hole_stays_a_hole() {
        let existing = [extent(0, 4, 100), extent(10, 4, 200), extent(20, 4, 300)];
        let spliced = write(&existing, 12..u64::MAX, &[]);
        assert_eq!(spliced.kept, [extent(0, 4, 100), extent(10, 2, 200)]);
        assert_eq!(spliced.freed, [extent(12, 2, 202), extent(20, 4, 300)]);
        assert_eq!(write(&existing, 5..8, &[]).kept, existing);
        assert_eq!(
            write(&existing, 5..6, &[extent(5, 1, 9)]).kept,
            [existing[0], extent(5, 1, 9), existing[1], existing[2]]
        );
    }

    #[test]
    fn many_writes_at_once_are_one_after_the_other() {
        let seed = 23;
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..2000 {
            let mut address = 1000;
            let mut place = |from: u64, to: u64, random: &mut fastrand::Rng| {
                let mut extents = Vec::new();
                let mut at = from;
                while at < to {
                    let blocks = random.u64(1..=to - at);
                    if random.u8(0..4) > 0 {
                        extents.push(extent(at, blocks as u32, address));
                        address += blocks + random.u64(0..2);
                    }
                    at += blocks;
                }
                extents
            };
            let existing = place(0, 60, &mut random);
            let mut news = Vec::new();
            let mut at = random.u64(0..10);
            while at < 70 {
                let end = if random.u8(0..8) == 0 { u64::MAX } else { at + random.u64(1..9) };
                let hole = end == u64::MAX || random.u8(0..4) == 0;
                let new = if hole { Vec::new() } else { place(at, end, &mut random) };
                news.push((at..end, new));
                at = end.saturating_add(random.u64(0..12));
            }
            let writes: Vec<ExtentWrite<'_>> =
                news.iter().map(|(blocks, new)| ExtentWrite { blocks: blocks.clone(), new }).collect();
            let at_once = splice(&existing, &writes);
            let mut one_by_one = Spliced { kept: splice(&existing, &[]).kept, freed: Vec::new() };
            for (blocks, new) in &news {
                let step = write(&one_by_one.kept, blocks.clone(), new);
                one_by_one.kept = step.kept;
                one_by_one.freed.extend(step.freed);
            }
            assert_eq!(at_once.kept, one_by_one.kept, "seed {seed}, round {round}");
            let blocks = |extents: &[Extent]| -> Vec<BlockAddress> {
                let each =
                    |it: &Extent| (it.file_block..it.end_block()).map(|at| it.address_of(at)).collect();
                extents.iter().flat_map(|it| -> Vec<BlockAddress> { each(it) }).collect()
            };
            assert_eq!(blocks(&at_once.freed), blocks(&one_by_one.freed), "seed {seed}, round {round}");
            let mut patched: std::collections::BTreeMap<u64, Extent> =
                existing.iter().map(|it| (it.file_block, *it)).collect();
            for (at, change) in differences(&existing, &at_once.kept) {
                assert_ne!(patched.remove(&at), change, "seed {seed}, round {round}");
                patched.extend(change.map(|it| (at, it)));
            }
            assert!(patched.into_values().eq(at_once.kept), "seed {seed}, round {round}");
        }
    }
}
