//! Kicks that wake SharedFS when the log holds something to digest, and waits for the digest.

use crate::errno::Error;
use crate::session::session::Session;
use crate::sync::{Ordering, fence};
use cuesta_format::LogPosition;
use cuesta_format::wire::Request;
use cuesta_media::wait;
use cuesta_media::wait::Waited;
use std::time::Duration;

/// Part of the entries that may lie undigested after which the next kick is due.
const KICK_PART: u64 = 4;

impl Session {
    /// Tells SharedFS that there is something to digest, when an entry that ends at `end` makes that news.
    #[inline]
    pub(crate) fn appended(&self, end: LogPosition) {
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
            // Either this finds that SharedFS looks no more, or its last look finds what was appended.
            fence(Ordering::SeqCst);
            if is_long || !self.is_log_polled() {
                self.raise_kick();
            }
        }
    }

    /// Wakes SharedFS. That it is gone shows elsewhere.
    pub(crate) fn raise_kick(&self) {
        let _ = wait::raise(&*self.kick.read());
    }

    /// Sleeps until `digested` moves past `seen`. If it does not for long, SharedFS is asked for a digest: it had not
    /// heard the kick, or is gone, and either shows then.
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

    /// Who waits for a digest asks for one after `look`.
    pub(crate) fn look_for_digest_after(&self, look: Duration) {
        let nanoseconds = u64::try_from(look.as_nanos()).unwrap_or(u64::MAX);
        self.digest_look.store(nanoseconds, Ordering::Relaxed);
    }

    /// Waits for a digest so far, and how many of them nobody ended.
    pub(crate) fn digest_waits(&self) -> (u64, u64) {
        (self.waits.load(Ordering::Relaxed), self.waits_timed_out.load(Ordering::Relaxed))
    }
}
