//! Policy: which log is digested next, and when.
//!
//! A log is digested at once, the longest first, if
//! - it is longer than the kick threshold (half a commit file, where it has one: behind that only the log's own
//!   pages would be left for writes that wait for the disk),
//! - it may hold half of the entries its session may leave undigested, or
//! - its writer waits, however short it is.
//!
//! So no writer waits for space while a short log is served. The others wait until no log was any of that for the
//! idle time: a file that is written once more meanwhile is copied once.

use crate::store::Options;
use cuesta_format::SessionId;
use cuesta_format::entry::ENTRY_ALIGNMENT;
use std::cmp::Reverse;
use std::time::Duration;

/// The part of a log that is not digested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The log's session.
    pub session: SessionId,
    /// How much.
    pub bytes: u64,
    /// How much makes it long.
    pub long_bytes: u64,
    /// A thread waits for its digest, as the session says.
    pub awaited: bool,
}

/// The logs to digest at once, in this order; with `idle` any log that holds something will do. How long a log is its
/// session says: one behind which nothing is found must not keep the others waiting.
#[must_use]
pub fn due(backlogs: &[Backlog], options: &Options, idle: bool) -> Vec<SessionId> {
    let many = entries_share(options, backlogs.len()) * ENTRY_ALIGNMENT as u64 / 2;
    let least = |backlog: &Backlog| if idle || backlog.awaited { 1 } else { backlog.long_bytes.min(many) };
    let mut due: Vec<Backlog> =
        backlogs.iter().filter(|backlog| backlog.bytes >= least(backlog)).copied().collect();
    due.sort_by_key(|backlog| Reverse(backlog.bytes));
    due.iter().map(|backlog| backlog.session).collect()
}

/// How many entries each of `sessions` sessions may leave undigested, so that recovery finds no more than it can digest
/// in a moment.
#[must_use]
pub fn entries_share(options: &Options, sessions: usize) -> u64 {
    (options.undigested_entries / (sessions as u64).max(1)).max(1)
}

/// How long the digest thread may sleep without a kick, given what is left to do; `polls`: some do not kick.
#[must_use]
pub fn sleep(backlogs: &[Backlog], polls: bool, options: &Options) -> Option<Duration> {
    let dirty = backlogs.iter().any(|backlog| backlog.bytes > 0);
    (dirty || polls).then(|| Duration::from_millis(options.digest_idle_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_logs_go_first_and_short_ones_wait() {
        let options = Options { digest_idle_ms: 7, ..Options::default() };
        let backlog =
            |session, bytes| Backlog { session: SessionId(session), bytes, long_bytes: 100, awaited: false };
        let short = [backlog(1, 99), backlog(2, 10)];
        assert_eq!(due(&short, &options, false), []);
        assert_eq!(due(&short, &options, true), [SessionId(1), SessionId(2)]);
        assert_eq!(due(&[backlog(1, 100), backlog(2, 300)], &options, false), [SessionId(2), SessionId(1)]);
        assert_eq!(due(&[backlog(1, 0)], &options, true), []);
        let by_a_commit_file = Backlog { long_bytes: 99, ..backlog(1, 99) };
        assert_eq!(due(&[by_a_commit_file, backlog(2, 99)], &options, false), [SessionId(1)]);
        let awaited = Backlog { awaited: true, ..backlog(2, 10) };
        assert_eq!(due(&[backlog(1, 99), awaited], &options, false), [SessionId(2)]);
        assert_eq!(due(&[Backlog { bytes: 0, ..awaited }], &options, false), []);
        let most = Options { undigested_entries: 6, ..options.clone() };
        assert_eq!(due(&short, &most, false), [SessionId(1)]);
        assert_eq!((entries_share(&most, 0), entries_share(&most, 2), entries_share(&most, 100)), (6, 3, 1));
        assert_eq!(sleep(&short, false, &options), Some(Duration::from_millis(7)));
        assert_eq!(sleep(&[backlog(1, 0)], false, &options), None);
        assert_eq!(sleep(&[backlog(1, 0)], true, &options), Some(Duration::from_millis(7)));
    }
}
