//! Policy: when to ask for more leases than the one that is needed.
//!
//! Programs that go through a tree touch inodes with numbers near each other, one after the other, and a question to
//! SharedFS takes longer than all the rest of a stat. So when questions are about near numbers, the next one asks for
//! the whole aligned block around its inode, of eight times as many numbers each time, as a kernel reads ahead. A
//! question about some far inode starts at nothing: who touches two files of a million gets two leases. Only who went
//! through a thousand in a row before is taken to go on so.
//!
//! Near is what lies in the same region of inode numbers, or goes on in the one beside it. Several regions are
//! remembered, because threads of one program (git has twenty) share out a tree among themselves.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use cuesta_format::InodeNumber;
use cuesta_format::wire::AHEAD_MAX;

/// Numbers of a region.
const REGION: u64 = 2 * AHEAD_MAX as u64;
/// Regions remembered.
const REGIONS: usize = 64;
/// The first block asked for: what shares a record in the metadata store.
const BLOCK_FIRST: u32 = 16;
/// Each block is so many times the one before.
const GROWTH: u32 = 8;

/// Who asked for such a block last goes through a tree of many files,
const WALK_BLOCK: u32 = 1024;
/// and starts with so many elsewhere.
const BLOCK_FIRST_OF_WALK: u32 = 128;

/// The last block asked for in each of some regions. Threads overwrite each other's: what is lost is a guess.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Region number + 1, then 16 bits for the block.
    asked: [AtomicU64; REGIONS],
    /// The last block asked for near another.
    walked: AtomicU32,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead { asked: [const { AtomicU64::new(0) }; REGIONS], walked: AtomicU32::new(0) }
    }
}

impl Ahead {
    /// How many numbers around `inode` to ask for along with it.
    pub(crate) fn next(&self, inode: InodeNumber) -> u32 {
        let region = inode.0 / REGION;
        let beside = [region.checked_sub(1), Some(region + 1)];
        let block = match self.last_in(region) {
            Some(0) => BLOCK_FIRST,
            Some(block) => (block * GROWTH).min(AHEAD_MAX),
            None => {
                let beside = beside.into_iter().flatten().filter_map(|region| self.last_in(region)).max();
                beside.unwrap_or_else(|| self.start())
            }
        };
        if block > 0 {
            self.walked.store(block, Ordering::Relaxed);
        }
        self.slot(region).store((region + 1) << 16 | u64::from(block), Ordering::Relaxed);
        block
    }

    /// What to begin with far from everything asked for before.
    fn start(&self) -> u32 {
        if self.walked.swap(0, Ordering::Relaxed) >= WALK_BLOCK { BLOCK_FIRST_OF_WALK } else { 0 }
    }

    fn slot(&self, region: u64) -> &AtomicU64 {
        &self.asked[(region % REGIONS as u64) as usize]
    }

    fn last_in(&self, region: u64) -> Option<u32> {
        let asked = self.slot(region).load(Ordering::Relaxed);
        (asked >> 16 == region + 1).then_some((asked & 0xffff) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked<const N: usize>(ahead: &Ahead, numbers: [u64; N]) -> [u32; N] {
        numbers.map(|number| ahead.next(InodeNumber(number)))
    }

    #[test]
    fn blocks_grow_along_a_walk() {
        let ahead = Ahead::default();
        assert_eq!(asked(&ahead, [50_000, 50_003, 50_001, 50_040]), [0, 16, 128, 1024]);
        assert_eq!(asked(&ahead, [50_100, 50_150]), [AHEAD_MAX, AHEAD_MAX]);
        assert_eq!(asked(&ahead, [53_300]), [AHEAD_MAX], "the walk goes on in the next region");
        assert_eq!(asked(&ahead, [900_000, 900_500]), [128, 1024], "it goes on elsewhere");
        assert_eq!(asked(&ahead, [7, 70_000_000, 80_000_000]), [128, 0, 0], "these are far from each other");
    }

    #[test]
    fn walks_beside_each_other_do_not_disturb() {
        let ahead = Ahead::default();
        assert_eq!(asked(&ahead, [10_000, 20_000, 30_000]), [0, 0, 0]);
        assert_eq!(asked(&ahead, [10_001, 20_001, 30_001]), [16, 16, 16]);
        assert_eq!(asked(&ahead, [10_017, 20_017, 30_017]), [128, 128, 128]);
    }
}
