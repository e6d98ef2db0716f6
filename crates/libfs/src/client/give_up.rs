//! Trying again, or giving up with a message to a person.
//!
//! An operation that waits for room or credit has not failed as long as the session makes progress, even if other threads take
//! what arrives.

use crate::client::client::Client;
use crate::client::retries::Retries;
use crate::errno::Error;
use crate::session::pages::WaitProgress;
use crate::sync::Ordering;
use std::time::Duration;

impl Client {
    /// Gives up what does not come to an end after `after`, and many attempts: 30 s, unless this is called.
    pub fn give_up_after(&self, after: Duration) {
        let nanoseconds = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.give_up_policy.after_nanoseconds.store(nanoseconds, Ordering::Relaxed);
    }

    /// Has `tell` called the first time that this client gives something up: it is to say so to a person, and not by way of
    /// this client, an operation of which is not over.
    pub fn tell_of_giving_up(&self, tell: fn(&str)) {
        // Whoever came first stays: there is one door.
        let _ = self.give_up_policy.tell.set(tell);
    }

    /// An attempt failed, and is to be made again, unless there were enough: `why` they fail then.
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

    /// The same of an attempt that may have ended in a wait, with this `reached` before it: it has failed if nothing got on.
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

    /// The same by who may hold something: the error alone says it.
    #[cold]
    pub(crate) fn retry_silently(&self, retries: &mut Retries, why: &'static str) -> Result<(), Error> {
        let after = Duration::from_nanos(self.give_up_policy.after_nanoseconds.load(Ordering::Relaxed));
        if retries.failed(after) { Ok(()) } else { Err(Error::Daemon(why.into())) }
    }
}
