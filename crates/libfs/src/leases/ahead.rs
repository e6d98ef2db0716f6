//! Policy: when to ask for more leases than the one that is needed.
//!
//! Programs that go through a tree touch inodes with numbers near each other, one after the other, and a question to
//! SharedFS takes longer than all the rest of a stat. So when questions are about near numbers, the next one asks for
//! the whole aligned block around its inode, of eight times as many numbers each time, as a kernel reads ahead. A
//! question about some far inode starts at nothing: who touches two files of a million gets two leases. Only who went
//! through a thousand in a row before is taken to go on so.
//!
//! Who goes through many asks for the block behind as well, without waiting: SharedFS puts it together while this one is
//! gone through ([`Ahead::behind`]). The first look into that one asks for the next, so that never more than one block is
//! granted that nobody comes to.
//!
//! Near is what lies in the same region of inode numbers, or goes on in the one beside it. Several regions are
//! remembered, because threads of one program (git has twenty) share out a tree among themselves.

use crate::sync::{AtomicBool, AtomicU64, Ordering};
use cuesta_format::InodeNumber;
use cuesta_format::wire::AHEAD_MAX;

/// Numbers of a region.
const REGION: u64 = 4 * BLOCK;

/// Regions, and blocks asked for, that are remembered.
const REGIONS: usize = 64;

/// Numbers of the largest block.
const BLOCK: u64 = AHEAD_MAX as u64;

/// So many blocks behind one may have been asked for before.
const BEHIND_MAX: u64 = 4;

/// The first block asked for: what shares a record in the metadata store.
const BLOCK_FIRST: u32 = 16;

/// The first elsewhere, for who went through a thousand in a row.
const BLOCK_FIRST_OF_WALK: u32 = 128;

/// Each block is so many times the one before.
const GROWTH: u32 = 8;

/// The last block asked for in each of some regions. Threads overwrite each other's: what is lost is a guess.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// Region number + 1, then 16 bits for the block.
    asked: [AtomicU64; REGIONS],
    /// Whether the last question was for the largest block: who goes through so many files starts with more elsewhere.
    walks: AtomicBool,
    /// Whether many directories were asked for, and nothing far from what was asked for before since.
    in_tree: AtomicBool,
    /// Largest blocks asked for: their number + 1.
    blocks: [AtomicU64; REGIONS],
    /// The number + 1 of the one asked for last that nobody looked into yet.
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
            self.walks.store(block == AHEAD_MAX, Ordering::Relaxed);
        }
        if block == AHEAD_MAX {
            self.note_block(inode.0 / BLOCK);
        }
        self.slot(region).store((region + 1) << 16 | u64::from(block), Ordering::Relaxed);
        block
    }

    /// Many directories were asked for at once: what is in them comes next.
    pub(crate) fn comes_into_tree(&self) {
        self.in_tree.store(true, Ordering::Relaxed);
    }

    /// What to begin with far from everything asked for before.
    fn start(&self) -> u32 {
        let walked = self.walks.swap(false, Ordering::Relaxed);
        match self.in_tree.swap(false, Ordering::Relaxed) {
            true => AHEAD_MAX,
            false if walked => BLOCK_FIRST_OF_WALK,
            false => 0,
        }
    }

    /// After a question about `inode`: a number of the block to ask for without waiting, if this is a walk.
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

    /// [`Ahead::behind`], once, after what was granted ahead about `inode` was looked at: if it is of the last block.
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
        ahead.comes_into_tree();
        assert_eq!(asked(&ahead, [90_000_000]), [AHEAD_MAX]);
    }

    #[test]
    fn a_walk_asks_for_one_block_more_than_it_looks_into() {
        let ahead = Ahead::default();
        let number = |block: u64| InodeNumber(block * BLOCK);
        assert_eq!(ahead.behind(number(8)), None, "no walk");
        ahead.comes_into_tree();
        ahead.next(number(8));
        assert_eq!(ahead.behind(number(8)), Some(number(9)));
        assert_eq!(ahead.behind_seen(number(8)), None);
        assert_eq!(ahead.behind_seen(InodeNumber(number(9).0 + 5)), Some(number(10)));
        assert_eq!(ahead.behind_seen(number(9)), None, "once");
        // Another thread, further on.
        ahead.next(number(12));
        assert_eq!(ahead.behind(number(12)), Some(number(13)));
        assert_eq!(ahead.behind(number(9)), Some(number(11)), "what was asked for is not asked for again");
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
