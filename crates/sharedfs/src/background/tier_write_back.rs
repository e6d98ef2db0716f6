//! Below a store in memory the daemon flushes lower tiers to their disks, although no program waits for them.
//!
//! The kernel writes the pages at some time, too. But it reports a failed write only to a process that flushes the file.
//! Without these flushes the digest would give a failed disk more and more content.

use crate::tiers::is_shortage;
use crate::{Error, SharedFs};
use cuesta_format::Medium;
use cuesta_media::emulate::settle;
use rustix::io::Errno;
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
            match arenas.flush(arena) {
                Ok(()) => {}
                Err(Error::Io { source, .. }) if Errno::from_io_error(&source).is_some_and(is_shortage) => {
                    self.arenas.unwritten().note(arena);
                }
                Err(error) => self.storage().fail_tier(tier, &error.to_string()),
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
