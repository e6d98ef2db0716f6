//! Work that any client may cause by a question, and that costs others: it is done a part of the time at most.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// For so many times as long as the work took, no question causes it again.
const PAUSE_TIMES: u32 = 10;
/// But no longer than this: waiting is not work.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// When it may be done again.
#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    again: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// Does the work, unless it was done a moment ago.
    pub(crate) fn unless_just_done<E>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let began = Instant::now();
        if !self.is_due(began) {
            return Ok(());
        }
        let outcome = work();
        self.was_done(Instant::now(), began.elapsed());
        outcome
    }

    fn is_due(&self, now: Instant) -> bool {
        self.again.lock().is_none_or(|again| again <= now)
    }

    fn was_done(&self, ended: Instant, took: Duration) {
        *self.again.lock() = Some(ended + (took * PAUSE_TIMES).min(PAUSE_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_is_not_done_again_for_longer() {
        let limit = RateLimit::default();
        let now = Instant::now();
        assert!(limit.is_due(now));
        limit.was_done(now, Duration::from_millis(3));
        assert!(!limit.is_due(now + Duration::from_millis(29)));
        assert!(limit.is_due(now + Duration::from_millis(30)));
        limit.was_done(now, Duration::from_secs(3));
        assert!(limit.is_due(now + PAUSE_MAX));
        limit.was_done(now, Duration::ZERO);
        assert!(limit.is_due(now), "work that took no time costs nothing");
    }
}
