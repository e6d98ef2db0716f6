//! How often something is tried again before that is taken for a bug.
//!
//! An attempt that does not stand is nobody's fault: another session came between. Who is that unlucky again and again
//! meets what is damaged, in what is cached, stored or answered; and a program that gets an error can be looked at, where one
//! that turns in a circle cannot be told from one that works. What counts is both, attempts and time: a process that
//! was stopped, or a machine that is busy, makes time pass without attempts, and many attempts pass in a moment. Who waits for
//! room or for credit and gets on by it has not failed, also where other threads take what comes.

use crate::client::{Client, Halt};
use crate::errno::Error;
use crate::session::Session;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use cuesta_format::LogPosition;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Attempts of an operation, at the least: on a busy machine who shares an inode with many others loses its lease now and then
/// before it comes to run.
pub(crate) const OPERATION_ATTEMPTS: u32 = 2000;
/// Daemons that went away over one question.
pub(crate) const DAEMONS: u32 = 16;
/// Looks for a digest that find none; each lasts a quarter of a second and then asks for one.
pub(crate) const DIGEST_LOOKS: u32 = 40;
/// And so long it took.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// Why an operation is given up: its leases were all lost before it was done,
pub(crate) const NO_LEASE: &str = "a lease never lasts as long as an operation";
/// or none was, and it could not be done.
pub(crate) const NO_SENSE: &str = "names and inodes do not fit together";

/// How far a session has come with what operations wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    digested: LogPosition,
    log_limit: LogPosition,
    credit_limit: u64,
}

impl Halt {
    /// Whether the operation waits, for what comes by itself or is asked for.
    pub(crate) fn is_wait(&self) -> bool {
        matches!(
            self,
            Halt::LogFull(_) | Halt::Credit(_) | Halt::Entries | Halt::Undigested | Halt::Room { .. }
        )
    }
}

impl Session {
    /// What is there now.
    pub(crate) fn reached(&self) -> Reached {
        Reached {
            digested: self.digested(),
            log_limit: self.appender.limit(),
            credit_limit: self.credit_limit(),
        }
    }
}

/// When this client gives up, and whom it tells.
#[derive(Debug)]
pub(crate) struct GivingUp {
    after_nanoseconds: AtomicU64,
    tell: OnceLock<fn(&str)>,
    told: AtomicBool,
}

impl Default for GivingUp {
    fn default() -> GivingUp {
        GivingUp {
            after_nanoseconds: AtomicU64::new(GIVE_UP_AFTER.as_nanos() as u64),
            tell: OnceLock::new(),
            told: AtomicBool::new(false),
        }
    }
}

/// Attempts of one thing.
#[derive(Debug)]
pub(crate) struct Attempts {
    most: u32,
    made: u32,
    /// When the first one had failed.
    since: Option<Instant>,
}

impl Attempts {
    /// Of something that may be tried so often, however long it takes.
    #[inline]
    pub(crate) fn new(most: u32) -> Attempts {
        Attempts { most, made: 0, since: None }
    }

    /// One failed. `false`: there is no sense in another.
    #[cold]
    fn failed(&mut self, after: Duration) -> bool {
        self.made = self.made.saturating_add(1);
        let since = *self.since.get_or_insert_with(Instant::now);
        self.made < self.most || since.elapsed() < after
    }
}

impl Client {
    /// Gives up what does not come to an end after `after`, and many attempts: 30 s, unless this is called.
    pub fn give_up_after(&self, after: Duration) {
        let nanoseconds = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.giving_up.after_nanoseconds.store(nanoseconds, Ordering::Relaxed);
    }

    /// Has `tell` called the first time that this client gives something up: it is to say so to a person, and not by way of
    /// this client, an operation of which is not over.
    pub fn tell_of_giving_up(&self, tell: fn(&str)) {
        // Whoever came first stays: there is one door.
        let _ = self.giving_up.tell.set(tell);
    }

    /// An attempt failed, and is to be made again, unless there were enough: `why` they fail then.
    #[cold]
    pub(crate) fn again(&self, attempts: &mut Attempts, why: &'static str) -> Result<(), Error> {
        let enough = self.again_untold(attempts, why);
        if enough.is_err()
            && !self.giving_up.told.swap(true, Ordering::Relaxed)
            && let Some(tell) = self.giving_up.tell.get()
        {
            tell(why);
        }
        enough
    }

    /// The same of an attempt that may have ended in a wait, with this `reached` before it: it has failed if nothing got on.
    #[cold]
    pub(crate) fn again_behind(
        &self,
        reached: Option<Reached>,
        attempts: &mut Attempts,
        why: &'static str,
    ) -> Result<(), Error> {
        match reached {
            Some(before) if before != self.session.reached() => Ok(()),
            _ => self.again(attempts, why),
        }
    }

    /// The same by who may hold something: the error alone says it.
    #[cold]
    pub(crate) fn again_untold(&self, attempts: &mut Attempts, why: &'static str) -> Result<(), Error> {
        let after = Duration::from_nanos(self.giving_up.after_nanoseconds.load(Ordering::Relaxed));
        if attempts.failed(after) { Ok(()) } else { Err(Error::Daemon(why.into())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_many_attempts_nor_much_time_is_enough() {
        let mut quick = Attempts::new(3);
        assert!((0..1000).all(|_| quick.failed(Duration::from_secs(1000))));
        let mut slow = Attempts::new(3);
        let made = (0..10).take_while(|_| slow.failed(Duration::ZERO)).count();
        assert_eq!(made, 2);
    }
}
