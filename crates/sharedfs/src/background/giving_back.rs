//! Gives disks of lower tiers the room back that removed files had there: holes in files, discards on a disk.
//!
//! A block may be overwritten as soon as it is free, so it may lose its content as well: the transaction that freed it is
//! durable by then, and no session reads it. It is not free while the disk is asked.
//!
//! Policy: little by little while the daemon is idle. Promises, and a few blocks more, stay backed without making room.

use crate::{Error, SharedFs};
use cuesta_format::TierNumber;
use std::time::Duration;

/// A disk is asked for so many blocks at once at most: 16 MiB.
const BLOCKS_MOST: u32 = 4 << 10;
/// Blocks that are neither promised nor used, and stay usable at once: 4 MiB.
const BLOCKS_KEPT: u64 = 1 << 10;
/// A session is fenced if it keeps so many freed blocks: 1 MiB,
const BLOCKS_WORTH_A_FENCE: u64 = 256;
/// and has not let go of them for so long.
const IDLE_KEEPER: Duration = Duration::from_millis(500);

impl SharedFs {
    /// Gives a disk some room back. Says whether there was some.
    pub(crate) fn give_room_back(&self) -> Result<bool, Error> {
        if self.arenas.tiers_count() == 1 || self.metadata.is_read_only() {
            return Ok(false);
        }
        // A session that needs room meanwhile waits until it is clear which blocks have some.
        let Some(one_at_a_time) = self.making.try_lock() else { return Ok(true) };
        let beyond = self.mapped.beyond();
        for tier in self.arenas.tiers().filter(|tier| tier.number() != TierNumber::FAST) {
            if !tier.takes_room_back() {
                continue;
            }
            let run = {
                let space = &mut *self.space.lock();
                let spare = self.room_in(space, beyond).saturating_sub(BLOCKS_KEPT);
                space.allocator.take_stale(tier.number(), BLOCKS_MOST, spare)
            };
            let Some(run) = run else { continue };
            let given = tier.give_back(run);
            self.space.lock().allocator.put_back(run, !tier.makes_room_below());
            if let Err(error) = given {
                tracing::warn!(tier = tier.number().0, %error, "the disk does not take room of removed files back");
                tier.keep_room();
            }
            return Ok(true);
        }
        drop(one_at_a_time);
        self.take_back_below()
    }

    /// Fences sessions that do nothing and keep freed blocks of lower tiers. Says whether to call again.
    fn take_back_below(&self) -> Result<bool, Error> {
        let keepers = || self.space.lock().allocator.keepers_below(BLOCKS_WORTH_A_FENCE, IDLE_KEEPER);
        let (idle, others) = keepers();
        for &session in &idle {
            self.take_back_space(session)?;
        }
        // One that keeps them all the same is left alone.
        Ok(if idle.is_empty() { others > 0 } else { keepers().0.is_empty() })
    }
}
