//! Below a store in memory the daemon has the disks of lower tiers take what was written, although no program waits.
//!
//! The kernel would write it some time, too. But the kernel tells only those of a failed write who flush the file. So
//! without these flushes a disk that has failed would be given more content, until a program reads it.

use crate::SharedFs;
use cuesta_format::Medium;
use cuesta_media::emulate::settle;
use std::time::Duration;

impl SharedFs {
    /// Whether the store has lower tiers that no program waits for.
    pub(crate) fn has_tiers_below_memory(&self) -> bool {
        self.superblock.medium == Medium::Memory && self.arenas.tiers().count() > 1
    }

    /// Waits until a lower tier was written, and a moment more. Then flushes it. A tier whose disk refuses is only read
    /// from then on. Says whether to call again.
    pub(crate) fn write_back_tiers(&self) -> bool {
        let delay = Duration::from_millis(self.options.tier_write_back_ms.into());
        let Some(arenas) = self.arenas.unwritten().take_after(delay) else { return false };
        for arena in arenas {
            let tier = arena.tier();
            let Ok(arenas) = self.arenas.tier(tier) else { continue };
            if self.arenas.why_failed(tier).is_some() {
                continue;
            }
            if let Err(error) = arenas.flush(arena) {
                self.storage().fail_tier(tier, &error.to_string());
            }
            settle();
        }
        true
    }

    /// [`SharedFs::write_back_tiers`] returns, and does no more.
    pub(crate) fn stop_writing_back(&self) {
        self.arenas.unwritten().close();
    }
}
