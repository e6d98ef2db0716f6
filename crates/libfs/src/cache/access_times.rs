//! Times of last access: when a read moves them, and those that SharedFS has not been told yet.
//!
//! A reader takes no lease to move a time. It notes the time in its session.
//! [`crate::calls::attributes::access_times`] tells SharedFS of many at once.

use crate::sync::{AtomicBool, Mutex, Ordering};
use cuesta_format::wire::Request;
use cuesta_format::{FileKind, InodeNumber, InodeRecord, Timestamp};
use hashbrown::HashMap;

/// How old a time of last access may get before a read renews it anyway, in nanoseconds (relatime).
const AGE_MAX: i64 = 24 * 3600 * 1_000_000_000;

/// When a read moves the time of last access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// If the time is before the last change, or a day old.
    #[default]
    Relative,
    /// At each read.
    Always,
    /// At no read.
    Never,
}

/// The policy of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessTimes {
    /// When reads move the times.
    pub when: When,
    /// The times of directories never move.
    pub not_of_directories: bool,
}

pub(crate) const ALWAYS: u32 = 1;
pub(crate) const NEVER: u32 = 2;
const NOT_OF_DIRECTORIES: u32 = 4;

impl AccessTimes {
    pub(crate) fn bits(self) -> u32 {
        let when = match self.when {
            When::Relative => 0,
            When::Always => ALWAYS,
            When::Never => NEVER,
        };
        when | if self.not_of_directories { NOT_OF_DIRECTORIES } else { 0 }
    }
}

#[inline]
pub(crate) fn moves(policy: u32, accessed: Timestamp, record: &InodeRecord, now: Timestamp) -> bool {
    if policy & NEVER != 0 || policy & NOT_OF_DIRECTORIES != 0 && record.kind() == FileKind::Directory {
        return false;
    }
    let is_old = || now.0.saturating_sub(accessed.0) >= AGE_MAX;
    policy & ALWAYS != 0 || accessed <= record.modified || accessed <= record.changed || is_old()
}

/// Times that SharedFS has not been told.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    pub(crate) any: AtomicBool,
    pub(crate) noted: Mutex<HashMap<InodeNumber, Timestamp>>,
}

impl Accesses {
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.noted.lock().values().min().copied()
    }

    /// The inode lost its last name: SharedFS need not be told. Programs that read and remove many files would have it told
    /// of nothing else.
    pub(crate) fn forget(&self, inode: InodeNumber) {
        if self.any.load(Ordering::Relaxed) {
            self.noted.lock().remove(&inode);
        }
    }

    pub(crate) fn take(&self) -> Option<Request> {
        let mut noted = self.noted.lock();
        self.any.store(false, Ordering::Relaxed);
        let mut accesses: Vec<_> = noted.drain().collect();
        // Neighbours share a record.
        accesses.sort_unstable();
        (!accesses.is_empty()).then_some(Request::Accessed { accesses })
    }
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
