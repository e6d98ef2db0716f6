//! Policy: when to ask for more leases than the one that an operation needs.
//!
//! A program that walks a tree touches inodes with neighbouring numbers, one after the other. A request to
//! SharedFS takes longer than the rest of a stat. So when requests are for neighbouring numbers, the next one
//! asks for the whole aligned block around its inode. Each block is eight times as large as the last, as in a
//! kernel's read-ahead. A request for a far inode starts over with one lease, so a program that touches two
//! files of a million gets two. Only after a run of a thousand does the policy expect the walk to continue
//! elsewhere.
//!
//! A walk also posts a request for the block behind the present one ([`Ahead::behind`]). SharedFS assembles
//! that block while the program walks this one. The first look into it asks for the next. So at most one
//! granted block stays unused.
//!
//! Numbers are neighbours if they lie in one region, or in two adjacent regions. The policy remembers several
//! regions, because the threads of one program (git has twenty) divide a tree among themselves.

use crate::sync::{AtomicBool, AtomicU64, Ordering};
use cuesta_format::InodeNumber;
use cuesta_format::wire::AHEAD_MAX;

/// Inode numbers of a region.
const REGION: u64 = 4 * BLOCK;

/// How many regions, and how many requested blocks, the policy remembers.
const REGIONS: usize = 64;

/// Inode numbers of the largest block.
const BLOCK: u64 = AHEAD_MAX as u64;

/// How many blocks behind the present one may already have been requested.
const BEHIND_MAX: u64 = 4;

/// The first block of a walk: the inodes that share a record in the metadata store.
const BLOCK_FIRST: u32 = 16;

/// The first block elsewhere, after a run of a thousand.
const BLOCK_FIRST_OF_WALK: u32 = 128;

/// Each block is this many times as large as the last.
const GROWTH: u32 = 8;

/// The last block requested in each of some regions. Threads overwrite each other's entries, which only loses
/// a guess.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Region number + 1, then 16 bits for the size of the block.
    asked: [AtomicU64; REGIONS],
    /// The last request was for the largest block, so the next walk elsewhere starts larger.
    walks: AtomicBool,
    /// A request was for many directories, and none since was far from the earlier ones.
    in_tree: AtomicBool,
    /// The largest blocks that were requested: their number + 1.
    blocks: [AtomicU64; REGIONS],
    /// The number + 1 of the last posted block, until an operation looks into it.
    unseen: AtomicU64,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead {
            asked: [const { AtomicU64::new(0) }; REGIONS],
            walks: AtomicBool::new(false),
            in_tree: AtomicBool::new(false),
            blocks: [const { AtomicU64::new(0) }; REGIONS],
            unseen: AtomicU64::new(0),
        }
    }
}

impl Ahead {
    /// How many numbers around `inode` to request along with it.
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
            self.walks.store(block == AHEAD_MAX, Ordering::Relaxed);
        }
        if block == AHEAD_MAX {
            self.note_block(inode.0 / BLOCK);
        }
        self.slot(region).store((region + 1) << 16 | u64::from(block), Ordering::Relaxed);
        block
    }

    /// Notes a request for many directories: the walk will want their content next.
    pub(crate) fn note_tree(&self) {
        self.in_tree.store(true, Ordering::Relaxed);
    }

    /// The first block far from all earlier requests.
    fn start(&self) -> u32 {
        let walked = self.walks.swap(false, Ordering::Relaxed);
        match self.in_tree.swap(false, Ordering::Relaxed) {
            true => AHEAD_MAX,
            false if walked => BLOCK_FIRST_OF_WALK,
            false => 0,
        }
    }

    /// After a request for `inode`: a number in the block to post a request for, if this is a walk.
    pub(crate) fn behind(&self, inode: InodeNumber) -> Option<InodeNumber> {
        let block = inode.0 / BLOCK;
        if !self.knows_block(block) {
            return None;
        }
        let behind = (block + 1..=block + BEHIND_MAX).find(|&block| !self.knows_block(block))?;
        self.note_block(behind);
        self.unseen.store(behind + 1, Ordering::Relaxed);
        Some(InodeNumber(behind * BLOCK))
    }

    /// Like [`Ahead::behind`], once, after an operation looked at a lease on `inode` that was granted ahead,
    /// if `inode` is in the last posted block.
    #[inline]
    pub(crate) fn behind_seen(&self, inode: InodeNumber) -> Option<InodeNumber> {
        let seen = inode.0 / BLOCK + 1;
        let is_first = self.unseen.load(Ordering::Relaxed) == seen
            && self.unseen.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_first { self.behind(inode) } else { None }
    }

    fn knows_block(&self, block: u64) -> bool {
        self.blocks[(block % REGIONS as u64) as usize].load(Ordering::Relaxed) == block + 1
    }

    fn note_block(&self, block: u64) {
        self.blocks[(block % REGIONS as u64) as usize].store(block + 1, Ordering::Relaxed);
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
        assert_eq!(asked(&ahead, [50_000, 50_003, 50_001, 50_040]), [0, 16, 128, AHEAD_MAX]);
        assert_eq!(asked(&ahead, [51_300]), [AHEAD_MAX]);
        assert_eq!(asked(&ahead, [53_300]), [AHEAD_MAX], "the walk goes on in the next region");
        assert_eq!(asked(&ahead, [900_000, 900_500]), [128, AHEAD_MAX], "it goes on elsewhere");
        assert_eq!(
            asked(&ahead, [7, 70_000_000, 80_000_000]),
            [BLOCK_FIRST_OF_WALK, 0, 0],
            "these are far from each other"
        );
        ahead.note_tree();
        assert_eq!(asked(&ahead, [90_000_000]), [AHEAD_MAX]);
    }

    #[test]
    fn a_walk_asks_for_one_block_more_than_it_looks_into() {
        let ahead = Ahead::default();
        let number = |block: u64| InodeNumber(block * BLOCK);
        assert_eq!(ahead.behind(number(8)), None, "no walk");
        ahead.note_tree();
        ahead.next(number(8));
        assert_eq!(ahead.behind(number(8)), Some(number(9)));
        assert_eq!(ahead.behind_seen(number(8)), None);
        assert_eq!(ahead.behind_seen(InodeNumber(number(9).0 + 5)), Some(number(10)));
        assert_eq!(ahead.behind_seen(number(9)), None, "once");
        // Another thread is further on.
        ahead.next(number(12));
        assert_eq!(ahead.behind(number(12)), Some(number(13)));
        assert_eq!(ahead.behind(number(9)), Some(number(11)), "a requested block is not requested again");
        assert_eq!(ahead.behind(number(9)), None);
    }

    #[test]
    fn walks_beside_each_other_do_not_disturb() {
        let ahead = Ahead::default();
        assert_eq!(asked(&ahead, [10_000, 20_000, 30_000]), [0, 0, 0]);
        assert_eq!(asked(&ahead, [10_001, 20_001, 30_001]), [16, 16, 16]);
        assert_eq!(asked(&ahead, [10_017, 20_017, 30_017]), [128, 128, 128]);
    }
}
