//! The thread that brings content to the tier that it is pinned to.
//!
//! Mechanism: it looks which files are pinned where, and moves the parts of them that lie elsewhere.
//!
//! Policy: it looks when a pin changed, and some seconds behind a digest. It works half the time. It leaves a tenth of the fast tier to
//! what programs write next. Content that has no room stays where it is, and `cuesta tier list` says how much that is.

use super::pinned::{Bringer, PinnedFiles};
use super::resolving::{find_pinned, resolve};
use crate::background::migration::Reason;
use crate::background::migration::part::Which;
use crate::requests::Trouble;
use crate::tiers::blocks_in;
use crate::{Error, SharedFs};
use cuesta_format::wire::MoveCause;
use cuesta_format::{InodeNumber, TierNumber};
use cuesta_media::emulate::settle;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The thread looks so long behind the last time, if a digest ended.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A look takes at most this part of the time.
const LOOK_PART: u32 = 20;
/// Content that had no room is tried again so late.
const TRY_AGAIN: Duration = Duration::from_secs(30);
/// The fast tier, and each other one, is filled up to so many hundredths.
const FULL_FAST: u64 = 90;
const FULL_BELOW: u64 = 98;

const REASON: Reason = Reason::of(MoveCause::Pinned);

/// What became of a look.
#[derive(Debug, Default)]
struct Brought {
    outside: BTreeMap<TierNumber, u64>,
    /// Some content could not be moved now.
    is_partial: bool,
}

impl SharedFs {
    /// Whether content can be pinned.
    pub(crate) fn has_lower_tiers(&self) -> bool {
        self.arenas.tiers_count() > 1
    }

    /// Waits until content may have to be brought somewhere, and brings it. Says whether to call again.
    pub(crate) fn bring_pinned(&self) -> bool {
        let pins = &self.migration.pins;
        let bringer = &mut *self.migration.bringer.lock();
        if let Some(soonest) = bringer.soonest
            && !pins.wait(soonest, bringer.latest)
        {
            return false;
        }
        let began = Instant::now();
        let looked = self.look_for_pinned(bringer);
        let took = began.elapsed();
        let brought = looked.and_then(|files| self.bring(&files));
        settle();
        let now = Instant::now();
        bringer.soonest = Some(now + LOOK_EVERY.max(took * LOOK_PART));
        bringer.latest = match brought {
            Ok(brought) => {
                let is_again = brought.is_partial || !brought.outside.is_empty();
                pins.set_outside(brought.outside);
                is_again.then(|| now + TRY_AGAIN)
            }
            Err(error) => {
                tracing::warn!(%error, "content cannot be brought to the tier that it is pinned to now");
                Some(now + TRY_AGAIN)
            }
        };
        true
    }

    fn look_for_pinned(&self, bringer: &mut Bringer) -> Result<Arc<PinnedFiles>, Error> {
        let pins = &self.migration.pins;
        // A pin that is noted from now on is seen at the next look.
        bringer.pinned.append(&mut pins.take_noted());
        let snapshot = self.metadata.read()?;
        if !std::mem::replace(&mut bringer.has_looked, true) {
            bringer.pinned.append(&mut find_pinned(&snapshot)?);
        }
        let files = resolve(&snapshot, &mut bringer.pinned, &|name| self.tier_called(name))?;
        if files.is_cut {
            tracing::warn!("more files are pinned to tiers than are looked after: some stay where they are");
        }
        Ok(pins.keep(files, !bringer.pinned.is_empty()))
    }

    /// Moves what lies elsewhere.
    fn bring(&self, files: &PinnedFiles) -> Result<Brought, Error> {
        let mut brought = Brought::default();
        let mut in_order: Vec<(TierNumber, InodeNumber)> =
            files.tiers.iter().map(|(&inode, &tier)| (tier, inode)).collect();
        in_order.sort_unstable();
        for (tier, inode) in in_order {
            if tier != TierNumber::FAST {
                self.drop_copies_of(inode)?;
            }
            let mut next = Some(0);
            while let Some(block) = next {
                if self.migration.pins.is_interrupted() {
                    return Ok(Brought { is_partial: true, ..brought });
                }
                if !self.has_room_for_pinned(tier) {
                    let outside = self.blocks_outside(inode, tier)?;
                    if outside > 0 {
                        *brought.outside.entry(tier).or_default() += outside;
                    }
                    break;
                }
                let began = Instant::now();
                let moved = match self.move_part(inode, block, (Which::Elsewhere, tier), REASON) {
                    Ok(moved) => moved,
                    Err(Trouble::Failed(error)) => return Err(error),
                    // It is gone.
                    Err(Trouble::Refused(_)) => break,
                };
                settle();
                brought.is_partial |= moved.is_busy || moved.is_pinned;
                if moved.is_full {
                    *brought.outside.entry(tier).or_default() += self.blocks_outside(inode, tier)?;
                    break;
                }
                next = moved.next;
                if moved.blocks > 0 && !self.migration.pins.pause(began.elapsed()) {
                    return Ok(Brought { is_partial: true, ..brought });
                }
            }
        }
        brought.outside.retain(|_, blocks| *blocks > 0);
        Ok(brought)
    }

    /// The user wants the fast tier for other content.
    fn drop_copies_of(&self, inode: InodeNumber) -> Result<(), Error> {
        match self.drop_copies(inode, std::slice::from_ref(&(0..u64::MAX))) {
            Err(Trouble::Failed(error)) => Err(error),
            Ok(_) | Err(Trouble::Refused(_)) => Ok(()),
        }
    }

    /// Whether content may be brought to a tier.
    fn has_room_for_pinned(&self, tier: TierNumber) -> bool {
        let Ok(arenas) = self.arenas.tier(tier) else { return false };
        let space = self.space.lock();
        let full = if tier == TierNumber::FAST { FULL_FAST } else { FULL_BELOW };
        space.allocator.takes_writes(tier)
            && space.allocator.used_blocks(tier) * 100 < blocks_in(arenas) * full
    }

    /// Blocks of a file that lie on other tiers.
    fn blocks_outside(&self, inode: InodeNumber, tier: TierNumber) -> Result<u64, Error> {
        let extents = self.metadata.read()?.extents(inode, 0..u64::MAX)?;
        let outside = extents.iter().filter(|extent| extent.address.tier() != tier);
        Ok(outside.map(|extent| u64::from(extent.blocks)).sum())
    }
}
