//! When the next cut is due.
//!
//! While there is something to write, cuts follow each other at half the bound. Then SharedFS sleeps until a session
//! kicks. It shows a new epoch first, so that the next operation of each session has a reason to look whether it sleeps.

use crate::{Error, SharedFs};
use cuesta_format::Epoch;
use cuesta_media::clock;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl SharedFs {
    /// Cuts, if a log has entries that the disk may lack. Answers how long to wait before the next call; `None`: until a session
    /// kicks.
    pub fn write_logs(&self) -> Result<Option<Duration>, Error> {
        let epochs = &self.epochs;
        if epochs.present() == Epoch(0) || epochs.has_failed() {
            return Ok(None);
        }
        let Some(pause) = self.time_between_cuts() else {
            self.leave_epochs()?;
            return Ok(None);
        };
        epochs.words.show_sleeping(false);
        if self.has_unwritten_entries() {
            let began_ms = clock::milliseconds();
            self.dsync()?;
            let took = Duration::from_millis(clock::milliseconds().saturating_sub(began_ms));
            return Ok(Some(pause.saturating_sub(took)));
        }
        {
            let mut cutting = epochs.cutting.lock();
            if epochs.present() > epochs.on_disk() && cutting.last.0 - epochs.on_disk().0 < 2 {
                epochs.show_next(&mut cutting);
            }
        }
        epochs.words.show_sleeping(true);
        // A session that found SharedFS awake has completed its entry before.
        if self.has_unwritten_entries() {
            epochs.words.show_sleeping(false);
            return Ok(Some(pause));
        }
        Ok(None)
    }

    /// A session kicked. Answers how long to wait before [`SharedFs::write_logs`].
    pub fn before_writing(&self) -> Option<Duration> {
        if self.epochs.present() == Epoch(0) {
            return None;
        }
        self.epochs.woken_ms.store(clock::milliseconds(), Ordering::SeqCst);
        self.time_between_cuts()
    }

    /// How long the oldest entry may have waited for the disk, if any waits.
    pub(crate) fn unwritten_milliseconds(&self) -> Option<u64> {
        let [cut, woken] =
            [&self.epochs.last_cut_ms, &self.epochs.woken_ms].map(|time| time.load(Ordering::SeqCst));
        let last = cut.max(woken);
        self.has_unwritten_entries().then(|| clock::milliseconds().saturating_sub(last))
    }
}
