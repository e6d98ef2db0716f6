//! Kicks that wake SharedFS when the log holds something to digest, and waits for the digest.

use crate::errno::Error;
use crate::session::session::Session;
use crate::sync::{Ordering, fence};
use cuesta_format::LogPosition;
use cuesta_format::wire::Request;
use cuesta_media::wait;
use cuesta_media::wait::Waited;
use std::time::Duration;

/// The next kick is due when this part of the allowed undigested entries has come since the last.
const KICK_PART: u64 = 4;

impl Session {
    /// Kicks SharedFS, if the entry that ends at `end` gives it something new to digest.
    #[inline]
    pub(crate) fn appended(&self, end: LogPosition) {
        self.completed_in_epoch();
        let kicked = self.kicked.load(Ordering::Relaxed);
        let page = self.notice.page();
        let entries = self.appender.entries();
        let many = page.entries_max.load(Ordering::Relaxed) / KICK_PART;
        let was_clean = page.digested.load(Ordering::Relaxed) >= kicked;
        let is_long = end.0.saturating_sub(kicked) >= page.kick_bytes.load(Ordering::Relaxed).max(1)
            || entries.saturating_sub(self.entries_kicked.load(Ordering::Relaxed)) >= many.max(1);
        if (was_clean || is_long)
            && self
                .kicked
                .compare_exchange(kicked, end.0.max(kicked), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.entries_kicked.store(entries, Ordering::Relaxed);
            // Either this load finds that SharedFS no longer polls, or SharedFS's last poll finds the entry.
            fence(Ordering::SeqCst);
            if is_long || !self.is_log_polled() {
                self.raise_kick();
            }
        }
    }

    /// Wakes SharedFS. If it is gone, other calls notice.
    pub(crate) fn raise_kick(&self) {
        let _ = wait::raise(&*self.kick.read());
    }

    /// Sleeps until `digested` moves past `seen`. If it does not move for long, the session asks for a
    /// digest. Then it shows whether SharedFS missed the kick or is gone.
    pub(crate) fn wait_digest(&self, seen: LogPosition) -> Result<(), Error> {
        let page = self.notice.page();
        self.client_page.page().waiters.fetch_add(1, Ordering::SeqCst);
        let wake = page.digest_wake.load(Ordering::SeqCst);
        self.raise_kick();
        let closed = self.closed();
        let mut waited = Waited::Changed;
        if !closed && self.digested() <= seen {
            self.waits.fetch_add(1, Ordering::Relaxed);
            let look = Duration::from_nanos(self.digest_look.load(Ordering::Relaxed));
            waited = wait::wait(&page.digest_wake, wake, Some(look));
        }
        self.client_page.page().waiters.fetch_sub(1, Ordering::SeqCst);
        if closed {
            return Err(Error::Disconnected);
        }
        if waited == Waited::TimedOut {
            self.waits_timed_out.fetch_add(1, Ordering::Relaxed);
            self.ask(&Request::Digest)?;
        }
        Ok(())
    }

    /// Sets how long a wait for a digest sleeps before it asks for one.
    pub(crate) fn look_for_digest_after(&self, look: Duration) {
        let nanoseconds = u64::try_from(look.as_nanos()).unwrap_or(u64::MAX);
        self.digest_look.store(nanoseconds, Ordering::Relaxed);
    }

    /// How many waits for a digest there were, and how many of them timed out.
    pub(crate) fn digest_waits(&self) -> (u64, u64) {
        (self.waits.load(Ordering::Relaxed), self.waits_timed_out.load(Ordering::Relaxed))
    }
}
