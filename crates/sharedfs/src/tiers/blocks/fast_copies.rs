//! Copies of blocks in a faster tier. Content has one home, a run of committed blocks of a lower tier. A copy of it may lie in the fast tier
//! beside that, so that reads are fast, and can be dropped at any time without writing anything (Ziggurat, §5.2, moves the home instead).
//!
//! A copy is known to the running daemon only. Its blocks are reserved, and never in a committed bitmap: the next daemon finds them free.
//! Who frees a home frees its copy with it, for the same readers.

use super::reservation::Run;
use cuesta_format::{BLOCK_BYTES, BlockAddress, Extent};
use std::collections::BTreeMap;

/// Homes and their copies.
#[derive(Debug, Default)]
pub struct FastCopies {
    /// Runs of blocks by the address of their homes, each with its length and where the copy is. They do not overlap.
    by_home: BTreeMap<BlockAddress, (u32, BlockAddress)>,
    blocks: u64,
}

impl FastCopies {
    /// Blocks that are copies.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Adds the copy of a run of blocks that have none.
    pub fn add(&mut self, home: Run, copy: BlockAddress) {
        debug_assert!(self.inside(home).is_empty(), "a block has one copy");
        self.blocks += u64::from(home.blocks);
        self.by_home.insert(home.address, (home.blocks, copy));
    }

    /// Whether a block has a copy.
    pub fn has(&self, home: BlockAddress) -> bool {
        self.has_any(Run { address: home, blocks: 1 })
    }

    /// Whether a block of a run has one.
    pub fn has_any(&self, homes: Run) -> bool {
        !self.inside(homes).is_empty()
    }

    /// Where the home of a copied block is, if there is a copy of one.
    pub fn home_of(&self, copy: BlockAddress) -> Option<BlockAddress> {
        self.by_home.iter().find_map(|(&home, &(blocks, at))| {
            let is_inside = (at.0..end(at, blocks).0).contains(&copy.0);
            is_inside.then(|| home.plus(copy.0 - at.0))
        })
    }

    /// An extent as readers see it: in parts, those that have a copy with the address of that.
    pub fn shown(&self, extent: &Extent) -> Vec<Extent> {
        let mut shown = Vec::new();
        let mut rest = *extent;
        for (home, copy) in self.inside(Run { address: extent.address, blocks: extent.blocks }) {
            let before = ((home.address.0 - rest.address.0) / BLOCK_BYTES) as u32;
            if before > 0 {
                shown.push(Extent { blocks: before, ..rest });
            }
            let file_block = rest.file_block + u64::from(before);
            shown.push(Extent { file_block, blocks: home.blocks, address: copy });
            rest = Extent {
                file_block: file_block + u64::from(home.blocks),
                blocks: rest.blocks - before - home.blocks,
                address: end(home.address, home.blocks),
            };
        }
        if rest.blocks > 0 {
            shown.push(rest);
        }
        shown
    }

    /// Forgets the copies of a run of blocks, and answers where they were.
    pub fn drop_of(&mut self, homes: Run) -> Vec<Run> {
        let dropped = self.inside(homes);
        for &(home, copy) in &dropped {
            let whole = self.by_home.range(..=home.address).next_back();
            let Some((&first, &(blocks, at))) = whole else { continue };
            self.by_home.remove(&first);
            let before = ((home.address.0 - first.0) / BLOCK_BYTES) as u32;
            if before > 0 {
                self.by_home.insert(first, (before, at));
            }
            let behind = blocks - before - home.blocks;
            if behind > 0 {
                self.by_home.insert(end(home.address, home.blocks), (behind, end(copy, home.blocks)));
            }
            self.blocks -= u64::from(home.blocks);
        }
        dropped.into_iter().map(|(home, copy)| Run { address: copy, blocks: home.blocks }).collect()
    }

    /// The parts of a run that have copies, and where these begin.
    fn inside(&self, homes: Run) -> Vec<(Run, BlockAddress)> {
        let (start, stop) = (homes.address, end(homes.address, homes.blocks));
        let first = self.by_home.range(..start).next_back().map(|(&home, _)| home);
        let candidates = self.by_home.range(first.unwrap_or(start)..stop);
        let overlap = |(&home, &(blocks, copy)): (&BlockAddress, &(u32, BlockAddress))| {
            let (from, to) = (home.max(start), end(home, blocks).min(stop));
            (from < to).then(|| {
                let part = Run { address: from, blocks: ((to.0 - from.0) / BLOCK_BYTES) as u32 };
                (part, copy.plus(from.0 - home.0))
            })
        };
        candidates.filter_map(overlap).collect()
    }
}

fn end(address: BlockAddress, blocks: u32) -> BlockAddress {
    address.plus(u64::from(blocks) * BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::TierNumber;

    fn low(block: u64) -> BlockAddress {
        BlockAddress::in_tier(TierNumber(1), block * BLOCK_BYTES)
    }

    fn fast(block: u64) -> BlockAddress {
        BlockAddress(block * BLOCK_BYTES)
    }

    fn run(address: BlockAddress, blocks: u32) -> Run {
        Run { address, blocks }
    }

    #[test]
    fn readers_see_the_copies_of_an_extent() {
        let mut copies = FastCopies::default();
        copies.add(run(low(10), 4), fast(100));
        copies.add(run(low(20), 2), fast(200));
        let extent = |file_block, blocks, address| Extent { file_block, blocks, address };
        assert_eq!(
            copies.shown(&extent(0, 16, low(8))),
            [
                extent(0, 2, low(8)),
                extent(2, 4, fast(100)),
                extent(6, 6, low(14)),
                extent(12, 2, fast(200)),
                extent(14, 2, low(22))
            ]
        );
        assert_eq!(copies.shown(&extent(5, 2, low(11))), [extent(5, 2, fast(101))]);
        assert_eq!(copies.shown(&extent(5, 2, low(30))), [extent(5, 2, low(30))]);
        assert_eq!(copies.home_of(fast(103)), Some(low(13)));
        assert_eq!(copies.home_of(fast(104)), None);
        assert!(copies.has(low(21)) && !copies.has(low(22)));
    }

    #[test]
    fn copies_go_with_their_homes() {
        let mut copies = FastCopies::default();
        copies.add(run(low(10), 8), fast(100));
        assert_eq!(copies.drop_of(run(low(0), 10)), []);
        assert_eq!(copies.drop_of(run(low(12), 2)), [run(fast(102), 2)]);
        assert_eq!(copies.blocks(), 6);
        assert!(copies.has(low(11)) && !copies.has(low(12)) && !copies.has(low(13)) && copies.has(low(14)));
        assert_eq!(copies.drop_of(run(low(0), 100)), [run(fast(100), 2), run(fast(104), 4)]);
        assert_eq!(copies.blocks(), 0);
    }
}
