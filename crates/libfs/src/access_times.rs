//! Policy: when a read moves an inode's time of last access. As Linux has it by default (relatime), unless a mount says otherwise.

use crate::client::Client;
use crate::sync::Ordering;
use cuesta_format::{FileKind, InodeRecord, Timestamp};

/// How old a time of last access may get before a read renews it anyway, in nanoseconds (relatime).
const AGE_MAX: i64 = 24 * 3600 * 1_000_000_000;

/// When reads move times of last access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Where that was before the last change, or is a day old.
    #[default]
    Relative,
    /// Each time.
    Always,
    /// Never.
    Never,
}

/// The policy of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessTimes {
    /// When reads move them.
    pub when: When,
    /// Those of directories stay.
    pub not_of_directories: bool,
}

const ALWAYS: u32 = 1;
const NEVER: u32 = 2;
const NOT_OF_DIRECTORIES: u32 = 4;

impl AccessTimes {
    fn bits(self) -> u32 {
        let when = match self.when {
            When::Relative => 0,
            When::Always => ALWAYS,
            When::Never => NEVER,
        };
        when | if self.not_of_directories { NOT_OF_DIRECTORIES } else { 0 }
    }
}

impl Client {
    /// Sets the policy.
    pub fn set_access_times(&self, times: AccessTimes) {
        self.access_times.store(times.bits(), Ordering::Relaxed);
    }

    /// Whether a read at `now` moves a time of last access.
    #[inline]
    pub(crate) fn moves_access_time(
        &self,
        accessed: Timestamp,
        record: &InodeRecord,
        now: Timestamp,
    ) -> bool {
        moves(self.access_times.load(Ordering::Relaxed), accessed, record, now)
    }
}

#[inline]
fn moves(policy: u32, accessed: Timestamp, record: &InodeRecord, now: Timestamp) -> bool {
    if policy & NEVER != 0 || policy & NOT_OF_DIRECTORIES != 0 && record.kind() == FileKind::Directory {
        return false;
    }
    let is_old = || now.0.saturating_sub(accessed.0) >= AGE_MAX;
    policy & ALWAYS != 0 || accessed <= record.modified || accessed <= record.changed || is_old()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::InodeNumber;

    #[test]
    fn a_mount_says_when_access_times_move() {
        let at = |seconds| Timestamp::new(seconds, 0);
        let file = InodeRecord::new(InodeNumber(5), 0o100_644, 0, 0, at(100));
        let directory = InodeRecord::new(InodeNumber(6), 0o040_755, 0, 0, at(100));
        let times = |when, not_of_directories| AccessTimes { when, not_of_directories }.bits();
        let relative = times(When::Relative, false);
        assert!(moves(relative, at(100), &file, at(101)));
        assert!(!moves(relative, at(101), &file, at(102)));
        assert!(moves(relative, at(101), &file, at(101 + 24 * 3600)));
        assert!(moves(times(When::Always, false), at(101), &file, at(102)));
        assert!(!moves(times(When::Never, false), at(100), &file, at(101)));
        assert!(!moves(times(When::Relative, true), at(100), &directory, at(101)));
        assert!(moves(times(When::Relative, true), at(100), &file, at(101)));
    }
}
