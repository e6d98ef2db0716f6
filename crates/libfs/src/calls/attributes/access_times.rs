//! Noting that an inode was read, and telling SharedFS of the new times of last access.
//!
//! The session tells SharedFS of many at once ([`Request::Accessed`]): before the process starts another one
//! or ends, and now and then in a process that goes on. If a process is killed, the times that it has not
//! told are lost.

use crate::cache::access_times::{ALWAYS, AccessTimes, NEVER, moves};
use crate::cache::inode::{Inode, State};
use crate::client::client::Client;
use crate::sync::Ordering;
use cuesta_format::wire::{ACCESSES_MAX, Request};
use cuesta_format::{InodeRecord, Timestamp};
use cuesta_media::clock;

/// At a close, the session tells SharedFS of times older than this, in nanoseconds.
const KEPT_NS_MAX: i64 = 100_000_000;
/// In optimistic mode it tells SharedFS less often: that is a commit, and no call is to wait for the disk.
const KEPT_OPTIMISTIC_NS_MAX: i64 = 10_000_000_000;

impl Client {
    /// Sets the policy of this session.
    pub fn set_access_times(&self, times: AccessTimes) {
        self.access_times.store(times.bits(), Ordering::Relaxed);
    }

    /// Whether no read moves a time.
    pub(crate) fn moves_no_access_times(&self) -> bool {
        self.access_times.load(Ordering::Relaxed) & NEVER != 0
    }

    /// Whether each read moves a time.
    pub(crate) fn moves_all_access_times(&self) -> bool {
        self.access_times.load(Ordering::Relaxed) & ALWAYS != 0
    }

    /// Whether a read at `now` moves the time of last access.
    #[inline]
    pub(crate) fn moves_access_time(
        &self,
        accessed: Timestamp,
        record: &InodeRecord,
        now: Timestamp,
    ) -> bool {
        moves(self.access_times.load(Ordering::Relaxed), accessed, record, now)
    }

    /// Notes a read through a file with these flags.
    #[inline]
    pub(crate) fn note_access(&self, flags: i32, inode: &Inode, state: &State) {
        let now = clock::now();
        if self.moves_access_time(inode.accessed(), &state.record, now) && flags & libc::O_NOATIME == 0 {
            self.move_access(inode, now);
        }
    }

    #[cold]
    fn move_access(&self, inode: &Inode, now: Timestamp) {
        inode.set_accessed(now);
        let mut noted = self.accesses.noted.lock();
        if noted.len() < ACCESSES_MAX || noted.contains_key(&inode.number) {
            noted.insert(inode.number, now);
            self.accesses.any.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there are times that SharedFS has not been told.
    #[inline]
    #[must_use]
    pub fn has_accesses(&self) -> bool {
        self.accesses.any.load(Ordering::Relaxed)
    }

    /// Tells SharedFS the noted times. If that fails, only times are lost.
    pub fn tell_accesses(&self) {
        if self.has_accesses()
            && self.check_alive().is_ok()
            && let Some(request) = self.accesses.take()
        {
            let _ = self.session.ask(&request);
        }
    }

    /// Whether a noted time is older than it should be.
    #[inline]
    #[must_use]
    pub fn has_old_accesses(&self) -> bool {
        self.has_accesses() && self.are_accesses_old()
    }

    /// Tells SharedFS, if a noted time is old.
    #[inline]
    pub(crate) fn tell_old_accesses(&self) {
        if self.has_old_accesses() {
            self.tell_accesses();
        }
    }

    #[cold]
    fn are_accesses_old(&self) -> bool {
        let kept_ns = if self.session.is_optimistic() { KEPT_OPTIMISTIC_NS_MAX } else { KEPT_NS_MAX };
        let is_old = |time: Timestamp| clock::now().0.saturating_sub(time.0) > kept_ns;
        self.accesses.noted.lock().len() >= ACCESSES_MAX / 2 || self.accesses.oldest().is_some_and(is_old)
    }

    /// The remaining times of a session that ends.
    pub(crate) fn last_accesses(&self) -> Option<Request> {
        if self.has_accesses() { self.accesses.take() } else { None }
    }
}
