//! When is which log digested? The policy; [`super::digester`] is the mechanism.
//!
//! A log that holds `kick_bytes` or more is due at once, one that holds less is due `idle` after it was first
//! seen to hold something: what is overwritten or deleted within that time never reaches the shared area.
//! Among logs that are due, the one that was due first goes first, one batch at a time, so that a fast
//! writer does not starve the others.

use cuesta_format::SessionId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The logs that wait for a digest, and since when they are due.
#[derive(Debug)]
pub(super) struct DigestSchedule {
    kick_bytes: u64,
    idle: Duration,
    due: BTreeMap<SessionId, Instant>,
}

impl DigestSchedule {
    pub(super) fn new(kick_bytes: u64, idle: Duration) -> DigestSchedule {
        DigestSchedule { kick_bytes, idle, due: BTreeMap::new() }
    }

    /// `pending` bytes wait in the session's log.
    pub(super) fn saw(&mut self, session: SessionId, pending: u64, now: Instant) {
        if pending == 0 {
            self.due.remove(&session);
            return;
        }
        let due = if pending >= self.kick_bytes { now } else { now + self.idle };
        let entry = self.due.entry(session).or_insert(due);
        *entry = due.min(*entry);
    }

    /// The session whose turn it is, if one is due.
    pub(super) fn take(&mut self, now: Instant) -> Option<SessionId> {
        let (&session, &due) = self.due.iter().min_by_key(|&(_, due)| due)?;
        if due > now {
            return None;
        }
        self.due.remove(&session);
        Some(session)
    }

    /// How long until one is due; `None`: until a kick.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.due.values().min().map(|due| due.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_millis(100);

    #[test]
    fn a_full_log_goes_at_once_and_a_dirty_one_after_a_while() {
        let start = Instant::now();
        let mut schedule = DigestSchedule::new(1000, IDLE);
        schedule.saw(SessionId(1), 10, start);
        schedule.saw(SessionId(2), 1000, start);
        assert_eq!(schedule.take(start), Some(SessionId(2)));
        assert_eq!(schedule.take(start), None);
        assert_eq!(schedule.wait(start), Some(IDLE));
        assert_eq!(schedule.take(start + IDLE), Some(SessionId(1)));
        assert_eq!(schedule.wait(start), None);
    }

    #[test]
    fn more_bytes_never_postpone_a_digest() {
        let start = Instant::now();
        let mut schedule = DigestSchedule::new(1000, IDLE);
        schedule.saw(SessionId(1), 10, start);
        schedule.saw(SessionId(1), 20, start + IDLE / 2);
        assert_eq!(schedule.take(start + IDLE), Some(SessionId(1)));
        schedule.saw(SessionId(1), 20, start);
        schedule.saw(SessionId(1), 0, start);
        assert_eq!(schedule.wait(start), None);
    }

    #[test]
    fn who_was_due_first_goes_first() {
        let start = Instant::now();
        let mut schedule = DigestSchedule::new(1000, IDLE);
        schedule.saw(SessionId(9), 10, start);
        let later = start + IDLE * 2;
        schedule.saw(SessionId(1), 5000, later);
        assert_eq!(schedule.take(later), Some(SessionId(9)));
        assert_eq!(schedule.take(later), Some(SessionId(1)));
    }
}
