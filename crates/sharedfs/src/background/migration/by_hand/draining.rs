//! Drains a tier: no new content goes there, and all that is there moves to other tiers.
//!
//! The daemon remembers that as long as it runs. The next one takes the tier for content again.

use crate::SharedFs;
use crate::background::migration::Reason;
use crate::background::migration::part::Which;
use crate::requests::{Trouble, invalid};
use cuesta_format::wire::{Drained, MoveCause, Refusal, Response, ScrubPlace};
use cuesta_format::{BLOCK_BYTES, InodeNumber, TierNumber};
use cuesta_media::emulate::settle;
use std::time::{Duration, Instant};

const REASON: Reason = Reason::of(MoveCause::Drained);
/// How long parts are moved before the command is told how far it is.
const MOVE_TIME: Duration = Duration::from_millis(200);

impl SharedFs {
    /// Moves content of a tier to others, from a place on, for a while.
    pub(crate) fn drain_tier(&self, tier: TierNumber, from: ScrubPlace) -> Result<Response, Trouble> {
        if from == ScrubPlace::default() {
            self.digest_everything()?;
            self.begin_drain(tier)?;
            // Sessions may have written there until then.
            self.digest_everything()?;
        }
        let end = self.metadata.read()?.inodes_end()?;
        let (began, mut place, mut drained) = (Instant::now(), from, Drained::default());
        while place.inode < end && began.elapsed() < MOVE_TIME && !drained.is_full {
            place = self.drain_some(tier, place, &mut drained)?;
            settle();
        }
        drained.next = (place.inode < end && !drained.is_full).then_some(place);
        let space = self.space.lock();
        drained.blocks_left = space.allocator.used_blocks(tier) + space.windows.held_in(tier);
        Ok(Response::Drained(drained))
    }

    /// From now on no new content goes to a tier, if the others have room for what it holds, and for what sessions were promised: each
    /// entry that they log has to find blocks.
    fn begin_drain(&self, tier: TierNumber) -> Result<(), Trouble> {
        if tier == TierNumber::FAST || !self.arenas.has(tier) {
            return Err(invalid("only lower tiers can be drained"));
        }
        if let Some(why) = self.arenas.why_missing(tier) {
            return Err(Trouble::Refused(Refusal::Internal(format!("tier {tier} is missing: {why}"))));
        }
        let beyond = self.mapped.beyond();
        let mut space = self.space.lock();
        if !space.allocator.takes_writes(tier) {
            return Ok(());
        }
        // Blocks of windows hold content as well, once a digest has adopted them.
        let needed = space.allocator.used_blocks(tier) + space.windows.held_in(tier);
        space.allocator.refuse_writes(tier);
        let for_sessions = space.credits.for_sessions(self.free_at_most(&space, beyond));
        let promised = space.credits.outstanding();
        if for_sessions < promised + needed {
            let room = for_sessions.saturating_sub(promised);
            space.allocator.take_writes(tier);
            let [needed, room] = [needed, room].map(|blocks| (blocks * BLOCK_BYTES).div_ceil(1 << 20));
            return Err(Trouble::Refused(Refusal::Internal(format!(
                "tier {tier} holds {needed} MiB, and the other tiers have room for {room} MiB"
            ))));
        }
        Ok(())
    }

    fn lies_in(&self, inode: InodeNumber, tier: TierNumber) -> Result<bool, Trouble> {
        let extents = self.metadata.read()?.extents(inode, 0..u64::MAX)?;
        Ok(extents.iter().any(|extent| extent.address.tier() == tier))
    }

    /// Moves the next part of a file out of a tier, and answers where to go on.
    fn drain_some(
        &self,
        tier: TierNumber,
        place: ScrubPlace,
        drained: &mut Drained,
    ) -> Result<ScrubPlace, Trouble> {
        let next_file = ScrubPlace { inode: InodeNumber(place.inode.0 + 1), block: 0 };
        let below = (tier.0 + 1..self.arenas.tiers_count()).chain((0..tier.0).rev()).map(TierNumber);
        for to in below.filter(|&to| self.space.lock().allocator.takes_writes(to)) {
            let moved = self.move_part(place.inode, place.block, (Which::Only(tier), to), REASON)?;
            drained.blocks += moved.blocks;
            if moved.is_full {
                continue;
            }
            drained.blocks_stayed += moved.blocks_stayed;
            drained.files_pinned += u64::from(moved.is_pinned && self.lies_in(place.inode, tier)?);
            drained.files_busy += u64::from(moved.is_busy);
            return Ok(moved.next.map_or(next_file, |block| ScrubPlace { block, ..place }));
        }
        drained.is_full = true;
        Ok(place)
    }
}
