//! Trying again, or giving up with a message to a person.
//!
//! An operation that waits for room or credit has not failed as long as the session makes progress, even if
//! other threads take what arrives.

use crate::client::client::Client;
use crate::client::retries::Retries;
use crate::errno::Error;
use crate::session::pages::WaitProgress;
use crate::sync::Ordering;
use std::time::Duration;

impl Client {
    /// Sets after how long, and many attempts, the client gives an operation up. The default is 30 s.
    pub fn give_up_after(&self, after: Duration) {
        let nanoseconds = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.give_up_policy.after_nanoseconds.store(nanoseconds, Ordering::Relaxed);
    }

    /// Sets the function that tells a person when this client gives something up for the first time. The
    /// function must not use this client, because an operation of it has not ended.
    pub fn tell_of_giving_up(&self, tell: fn(&str)) {
        // The first setting stays: a process has one door.
        let _ = self.give_up_policy.tell.set(tell);
    }

    /// Counts a failed attempt. It answers an error, with the reason `why`, once there were enough.
    #[cold]
    pub(crate) fn retry(&self, retries: &mut Retries, why: &'static str) -> Result<(), Error> {
        let enough = self.retry_silently(retries, why);
        if enough.is_err()
            && !self.give_up_policy.told.swap(true, Ordering::Relaxed)
            && let Some(tell) = self.give_up_policy.tell.get()
        {
            tell(why);
        }
        enough
    }

    /// Like [`Client::retry`], for an attempt that may have ended in a wait. `wait_progress` is from before
    /// the wait. The attempt counts as failed only if the wait brought no progress.
    #[cold]
    pub(crate) fn retry_after_wait(
        &self,
        wait_progress: Option<WaitProgress>,
        retries: &mut Retries,
        why: &'static str,
    ) -> Result<(), Error> {
        match wait_progress {
            Some(before) if before != self.session.wait_progress() => Ok(()),
            _ => self.retry(retries, why),
        }
    }

    /// Like [`Client::retry`], for a caller that may hold locks: it does not call the function that tells a
    /// person. The error alone says it.
    #[cold]
    pub(crate) fn retry_silently(&self, retries: &mut Retries, why: &'static str) -> Result<(), Error> {
        let after = Duration::from_nanos(self.give_up_policy.after_nanoseconds.load(Ordering::Relaxed));
        if retries.failed(after) { Ok(()) } else { Err(Error::Daemon(why.into())) }
    }
}
