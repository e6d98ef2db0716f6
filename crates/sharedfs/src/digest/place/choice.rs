//! Policy: the tier that new content of a batch goes to.
//!
//! The digest places with hindsight: it sees a log's prefix at once, what of it was overwritten, and how long the
//! runs are that remain. Long runs are what a disk is good at, and what would push small, hot content out of the
//! fast tier.
//!
//! | the fast tier | a run goes to a lower tier if it has |
//! |---|---|
//! | has room | [`LARGE_BLOCKS`] or more |
//! | is nearly full (over [`NEARLY_FULL_PERCENT`] %) | [`MEDIUM_BLOCKS`] or more |
//! | is full | any length |
//!
//! Where the chosen tier is full, the next one below takes the run; where all below are full, those above do.

use crate::tiers::{Arenas, Space};
use cuesta_format::TierNumber;

/// Runs of so many blocks are large: 1 MiB.
const LARGE_BLOCKS: u64 = 256;
/// Runs of so many blocks are not small: 64 KiB.
const MEDIUM_BLOCKS: u64 = 16;
/// A fast tier that is fuller keeps what is left of it for small content.
const NEARLY_FULL_PERCENT: u64 = 90;

/// How full the fast tier is.
#[derive(Clone, Copy, Debug)]
pub struct FastTier {
    /// Blocks that it may have.
    blocks: u64,
    /// Blocks that committed files use.
    used: u64,
}

impl FastTier {
    /// The fast tier before a batch.
    pub(crate) fn of(space: &Space, arenas: &Arenas) -> FastTier {
        let geometry = arenas.geometry();
        let blocks = u64::from(geometry.arenas_max()) * u64::from(geometry.arena_blocks());
        FastTier { blocks, used: space.allocator.used_blocks(TierNumber::FAST) }
    }

    fn is_nearly_full(self) -> bool {
        self.used * 100 > self.blocks * NEARLY_FULL_PERCENT
    }

    /// The tier at which the search for a place begins, for a run of so many blocks.
    fn first_choice(self, run_blocks: u64) -> TierNumber {
        let is_long = run_blocks >= if self.is_nearly_full() { MEDIUM_BLOCKS } else { LARGE_BLOCKS };
        TierNumber(u8::from(is_long))
    }

    /// The tiers to try, best first, for a run of so many blocks in a store with `tiers` tiers.
    pub(crate) fn choices(self, run_blocks: u64, tiers: u8) -> impl Iterator<Item = TierNumber> {
        let first = self.first_choice(run_blocks).0.min(tiers - 1);
        (first..tiers).chain((0..first).rev()).map(TierNumber)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(used: u64, run_blocks: u64, tiers: u8) -> Vec<u8> {
        FastTier { blocks: 1000, used }.choices(run_blocks, tiers).map(|tier| tier.0).collect()
    }

    #[test]
    fn long_runs_go_down_and_short_ones_only_when_the_fast_tier_fills_up() {
        assert_eq!(choices(0, LARGE_BLOCKS, 1), [0]);
        assert_eq!(choices(0, LARGE_BLOCKS - 1, 3), [0, 1, 2]);
        assert_eq!(choices(0, LARGE_BLOCKS, 3), [1, 2, 0]);
        assert_eq!(choices(901, MEDIUM_BLOCKS, 2), [1, 0]);
        assert_eq!(choices(901, MEDIUM_BLOCKS - 1, 2), [0, 1]);
    }
}
