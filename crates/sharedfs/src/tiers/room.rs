//! Room: how many blocks may be promised now, or once all memory the tiers can have is made. A promise is kept by
//! any tier.

use crate::tiers::blocks::Space;
use crate::tiers::memory::{Arenas, TierArenas};
use crate::{Error, SharedFs};
use cuesta_format::TierNumber;
use cuesta_format::event::Step;
use cuesta_media::Node;

/// Room the metadata store must have before more space is promised, and is given ahead of need.
pub(crate) const METADATA_SLACK_BYTES: u64 = 16 << 20;

impl SharedFs {
    /// Blocks that may be promised without making room.
    pub(crate) fn room(&self) -> u64 {
        let beyond = self.mapped.beyond();
        self.room_in(&self.space.lock(), beyond)
    }

    /// As [`SharedFs::room`], with so many blocks taken beyond the arenas.
    pub(crate) fn room_in(&self, space: &Space, beyond: u64) -> u64 {
        // They take first the memory that is not made yet.
        let taken = beyond.saturating_sub(self.unmade(space));
        space.credits.available(space.allocator.free_blocks().saturating_sub(taken))
    }

    /// Blocks that may be promised when all room there can be is made.
    pub(crate) fn room_at_most(&self, space: &Space, beyond: u64) -> u64 {
        space.credits.available(self.free_at_most(space, beyond))
    }

    /// Blocks that hold nothing, or will not when all room there can be is made.
    pub(crate) fn free_at_most(&self, space: &Space, beyond: u64) -> u64 {
        (space.allocator.free_blocks() + self.unmade(space)).saturating_sub(beyond)
    }

    /// Blocks of the tiers that no arena has memory for.
    pub(crate) fn unmade(&self, space: &Space) -> u64 {
        self.arenas.tiers().map(|tier| unmade_in(tier, space)).sum()
    }

    /// Blocks of the fast tier that no arena has memory for.
    pub(crate) fn unmade_fast(&self, space: &Space) -> u64 {
        unmade_in(self.arenas.fast(), space)
    }

    /// Blocks of the tiers that are there.
    pub(crate) fn blocks_at_most(&self) -> u64 {
        blocks_of(&self.arenas)
    }

    /// Gives a tier's arenas one step of memory more, unless there is enough meanwhile. Says whether there is.
    pub(crate) fn grow_tier(
        &self,
        tier: TierNumber,
        node: Option<Node>,
        is_enough: impl Fn() -> bool,
    ) -> Result<bool, Error> {
        let _one_at_a_time = self.making.lock();
        Ok(is_enough() || self.storage().grow(tier, node)?.is_some())
    }

    /// Gives the arenas of the first tier that can have it one step of memory more, of a node if one is named, unless there is enough meanwhile.
    /// Makes room in the metadata store first, for the records of it. Says whether there is enough.
    pub(crate) fn grow(&self, node: Option<Node>, is_enough: impl Fn() -> bool) -> Result<bool, Error> {
        self.metadata.ensure_slack(METADATA_SLACK_BYTES)?;
        // Clearing memory takes milliseconds, which neither promises nor digests wait for.
        let _one_at_a_time = self.making.lock();
        if is_enough() {
            return Ok(true);
        }
        let beyond = self.mapped.beyond();
        if beyond > 0 && self.unmade(&self.space.lock()) <= beyond {
            return Ok(false);
        }
        for tier in (0..self.arenas.tiers_count()).map(TierNumber) {
            let Some(grown) = self.storage().grow(tier, node)? else { continue };
            if grown.blocks.start == 0 {
                self.events.record(Step::Allocate { arena: grown.arena });
            }
            return Ok(true);
        }
        Ok(false)
    }
}

/// Blocks of a tier.
pub(crate) fn blocks_in(tier: &TierArenas) -> u64 {
    let geometry = tier.geometry();
    u64::from(geometry.arenas_max()) * u64::from(geometry.arena_blocks())
}

/// Blocks of a tier that no arena has memory for.
pub(crate) fn unmade_in(tier: &TierArenas, space: &Space) -> u64 {
    if !space.allocator.takes_writes(tier.number()) {
        return 0;
    }
    blocks_in(tier).saturating_sub(space.allocator.made_blocks(tier.number()))
}

/// Blocks of all tiers that are there.
pub(crate) fn blocks_of(arenas: &Arenas) -> u64 {
    arenas.tiers().map(blocks_in).sum()
}
