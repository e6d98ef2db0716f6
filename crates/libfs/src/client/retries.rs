//! How often the client tries something again before it takes the failure for a bug: the counters.
//!
//! A failed attempt is normal: another session came between. An operation that fails again and again has met
//! damaged data, in the cache, in the store or in an answer. A program that gets an error can be examined,
//! and a program that loops cannot. Both the number of attempts and the time count: a stopped process or a
//! busy machine lets time pass without attempts, and many attempts pass in a moment.

use crate::sync::{AtomicBool, AtomicU64};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The least number of attempts before an operation is given up. On a busy machine, a session that shares an
/// inode with many others sometimes loses its lease before it runs.
pub(crate) const OPERATION_TRIES: u32 = 2000;

/// Daemons that may end over one question.
pub(crate) const DAEMON_TRIES: u32 = 16;

/// Waits for a digest that may end without one. Each lasts a quarter of a second and then asks for a digest.
pub(crate) const DIGEST_TRIES: u32 = 40;

/// The least time before an operation is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// The reason for giving up an operation that lost its leases each time.
pub(crate) const LEASES_LOST: &str = "a lease never lasts as long as an operation";

/// The reason for giving up an operation that kept its leases and still could not be done.
pub(crate) const NAMES_DISAGREE: &str = "names and inodes do not fit together";

/// After how long this client gives up, and the function that it tells.
#[derive(Debug)]
pub(crate) struct GiveUpPolicy {
    pub(super) after_nanoseconds: AtomicU64,
    pub(super) tell: OnceLock<fn(&str)>,
    pub(super) told: AtomicBool,
}

impl Default for GiveUpPolicy {
    fn default() -> GiveUpPolicy {
        GiveUpPolicy {
            after_nanoseconds: AtomicU64::new(GIVE_UP_AFTER.as_nanos() as u64),
            tell: OnceLock::new(),
            told: AtomicBool::new(false),
        }
    }
}

/// The failed attempts of one operation.
#[derive(Debug)]
pub(crate) struct Retries {
    most: u32,
    made: u32,
    /// When the first attempt failed.
    since: Option<Instant>,
}

impl Retries {
    /// For an operation that may be tried `most` times, however long that takes.
    #[inline]
    pub(crate) fn new(most: u32) -> Retries {
        Retries { most, made: 0, since: None }
    }

    /// Counts a failed attempt. `false`: another one makes no sense.
    #[cold]
    pub(super) fn failed(&mut self, after: Duration) -> bool {
        self.made = self.made.saturating_add(1);
        let since = *self.since.get_or_insert_with(Instant::now);
        self.made < self.most || since.elapsed() < after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_many_attempts_nor_much_time_is_enough() {
        let mut quick = Retries::new(3);
        assert!((0..1000).all(|_| quick.failed(Duration::from_secs(1000))));
        let mut slow = Retries::new(3);
        let made = (0..10).take_while(|_| slow.failed(Duration::ZERO)).count();
        assert_eq!(made, 2);
    }
}
