//! Digests the logs that are due, as [`policy`] says.
//!
//! On a full medium, or where the metadata store is damaged, logs stay as they are: what programs did is kept there.

use super::progress::Progress;
use crate::digest::policy;
use crate::metadata::ReadOnly;
use crate::{Error, SharedFs};
use cuesta_media::emulate::settle;
use std::time::{Duration, Instant};

/// So long a full medium is left alone before the next try.
pub(crate) const STARVED_PAUSE: Duration = Duration::from_millis(500);

impl SharedFs {
    /// Digests one batch of the longest log, if any log holds something; else makes spare segments and arenas.
    /// When to call it is the caller's: see [`policy`].
    pub fn digest_step(&self) -> Result<Progress, Error> {
        for session in policy::due(&self.backlogs(), &self.options, true) {
            if let progress @ Progress::Digested { .. } = self.digest_unawaited(session)? {
                return Ok(progress);
            }
        }
        Ok(if self.prepare()? { Progress::Prepared } else { Progress::Idle })
    }

    /// Digests one batch of each log that is due; with `idle`, of every log that holds something, and looks after inodes without a name.
    /// Says whether there was something. On a full medium there is not, for a while: what programs did stays in their logs until there
    /// is room, and they are told when those are full. Where the metadata store is damaged, there is nothing to do ever again.
    pub(crate) fn digest_due(&self, idle: bool) -> Result<bool, Error> {
        if idle {
            self.stop_polling();
            // A disk that has failed keeps the page from being looked at, too. What can be read is served all the same.
            if let Err(error) = self.incarnation.mend() {
                tracing::error!(%error, "the page that counts daemons cannot be looked at");
            }
        }
        if self.is_starved() || self.metadata.is_read_only() {
            return Ok(false);
        }
        match self.digest_logs(idle).and_then(|some| Ok(some || idle && self.look_for_closed()?)) {
            Err(Error::NoSpace) => {
                tracing::warn!("no room for metadata: what is logged is digested when there is");
                *self.starved.lock() = Some(Instant::now());
                Ok(false)
            }
            Err(error) if error.is_left() => Err(error),
            // Others still read what they can.
            Err(error) => {
                self.refuse_writes_behind(&error);
                Ok(false)
            }
            digested => digested,
        }
    }

    /// From now on nothing is digested: the metadata store is damaged, or its medium has failed, and how much a
    /// commit left of either is unknown. Committed state is read, and logs are there for the next daemon.
    pub(super) fn refuse_writes_behind(&self, error: &Error) {
        if error.is_left() || self.metadata.is_read_only() {
            return;
        }
        let why = if error.is_damage() { ReadOnly::Damage } else { ReadOnly::Failure };
        tracing::error!(%error, "nothing is digested any more, what can be read is: {why}");
        self.metadata.refuse_writes(why);
    }

    fn digest_logs(&self, idle: bool) -> Result<bool, Error> {
        let mut some = false;
        for session in policy::due(&self.backlogs(), &self.options, idle) {
            let progress = self.digest_unawaited(session)?;
            settle();
            some |= !matches!(progress, Progress::Idle);
            if some && !idle {
                // There may be a longer one by now.
                return Ok(true);
            }
        }
        Ok(some || self.end_the_rest()?)
    }

    /// Whether a digest found the medium full a moment ago.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved.lock().is_some_and(|since| since.elapsed() < STARVED_PAUSE)
    }
}
