//! Policy: the tier that new content of a batch goes to.
//!
//! The digest places with hindsight: it sees a log's prefix at once, what of it was overwritten, and how long the
//! runs are that remain. Long runs are what a disk is good at, and what would push small, hot content out of the
//! fast tier.
//!
//! | the fast tier | a run goes to a lower tier if it has |
//! |---|---|
//! | has room | `large_run_bytes` or more |
//! | is fuller than `nearly_full_percent` | a sixteenth of that |
//! | is full | any length |
//!
//! Content that a program waits for has no length, and goes to the fast tier while there is room.
//! Where the chosen tier is full, the next one below takes the run; where all below are full, those above do.

use crate::store::Options;
use crate::tiers::{Arenas, Space};
use cuesta_format::{BLOCK_BYTES, TierNumber};

/// Which content goes to lower tiers.
#[derive(Clone, Copy, Debug)]
pub struct PlacementRule {
    /// Runs of so many blocks are large.
    large_blocks: u64,
    /// A fast tier that is fuller keeps its last blocks for small content.
    nearly_full_percent: u64,
}

impl PlacementRule {
    /// As the store's configuration has it.
    pub(crate) fn of(options: &Options) -> PlacementRule {
        PlacementRule {
            large_blocks: options.large_run_bytes / BLOCK_BYTES,
            nearly_full_percent: u64::from(options.nearly_full_percent),
        }
    }
}

/// How full the fast tier is.
#[derive(Clone, Copy, Debug)]
pub struct FastTier {
    /// Blocks that it may have.
    blocks: u64,
    /// Blocks that committed files use.
    used: u64,
    rule: PlacementRule,
}

impl FastTier {
    /// The fast tier before a batch.
    pub(crate) fn of(space: &Space, arenas: &Arenas, rule: PlacementRule) -> FastTier {
        let geometry = arenas.geometry();
        let blocks = u64::from(geometry.arenas_max()) * u64::from(geometry.arena_blocks());
        FastTier { blocks, used: space.allocator.used_blocks(TierNumber::FAST), rule }
    }

    fn is_nearly_full(self) -> bool {
        self.used * 100 > self.blocks * self.rule.nearly_full_percent
    }

    /// The tier at which the search for a place begins, for a run of so many blocks.
    fn first_choice(self, run_blocks: u64) -> TierNumber {
        let large = self.rule.large_blocks;
        let long = if self.is_nearly_full() { large / 16 } else { large };
        TierNumber(u8::from(run_blocks >= long.max(1)))
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

    const LARGE: u64 = 256;

    fn choices(used: u64, run_blocks: u64, tiers: u8) -> Vec<u8> {
        let rule = PlacementRule { large_blocks: LARGE, nearly_full_percent: 90 };
        FastTier { blocks: 1000, used, rule }.choices(run_blocks, tiers).map(|tier| tier.0).collect()
    }

    #[test]
    fn long_runs_go_down_and_short_ones_only_when_the_fast_tier_fills_up() {
        assert_eq!(choices(0, LARGE, 1), [0]);
        assert_eq!(choices(0, LARGE - 1, 3), [0, 1, 2]);
        assert_eq!(choices(0, LARGE, 3), [1, 2, 0]);
        assert_eq!(choices(901, LARGE / 16, 2), [1, 0]);
        assert_eq!(choices(901, LARGE / 16 - 1, 2), [0, 1]);
        assert_eq!(choices(901, 0, 2), [0, 1], "what a program waits for");
    }
}
