//! Sessions that need not kick: a session that got an inode others were fenced for is about to be fenced for it,
//! too.
//!
//! A kick wakes the digest thread, on a processor where another session waits for the inode or digests the log it
//! waits for. So the daemon tells such a session that it looks at the log anyway: the next waiter does, or the
//! digest thread once no session kicked for the idle time. That is the last look at it; from then on the session
//! kicks again.

use crate::SharedFs;
use crate::sessions::Session;
use cuesta_format::SessionId;
use cuesta_media::wait;
use std::time::{Duration, Instant};

/// A session that got an inode longer ago than this takes no turns at the moment.
const TURN_MAX: Duration = Duration::from_millis(50);

impl SharedFs {
    /// The session need not kick, until the digest thread finds time to look after its log.
    pub(crate) fn poll_without_kick(&self, session: SessionId) {
        *self.last_polled_at.lock() = Some(Instant::now());
        let mut core = self.core.lock();
        let Some(found) = core.sessions.get_mut(&session) else { return };
        if !std::mem::replace(&mut found.is_polled, true) {
            found.control.publish_polled(true);
            // The digest thread may be asleep for good: it learns that there is a log to look at.
            let _ = wait::raise(found.control.kick());
        }
    }

    /// Whether there are such sessions.
    pub(crate) fn polls_logs(&self) -> bool {
        self.core.lock().sessions.values().any(|found| found.is_polled)
    }

    /// Whether sessions take turns just now, so that one of them waits.
    pub(crate) fn sessions_take_turns(&self) -> bool {
        self.last_polled_at.lock().is_some_and(|at| at.elapsed() < TURN_MAX)
    }

    /// All kick again. This looks at the growth they did not kick for.
    pub(crate) fn stop_polling(&self) {
        let polled: Vec<SessionId> = {
            let mut core = self.core.lock();
            let polled = core.sessions.values_mut().filter(|found| found.is_polled);
            polled.map(Session::kick_again).collect()
        };
        polled.into_iter().for_each(|session| self.note_growth(session));
    }
}

impl Session {
    fn kick_again(&mut self) -> SessionId {
        self.is_polled = false;
        self.control.publish_polled(false);
        self.id
    }
}
