//! What a session's log must not survive without, on medium `block` ([`cuesta_format::dependency`]).
//!
//! | session | depends on | how it learns of that |
//! |---|---|---|
//! | of a program | the log of SharedFS's own session | each answer says how far that log goes ([`Observed`]) |
//! | SharedFS's own | the logs of programs that send operations | each operation that is sent says how far its sender's log goes ([`behind`]) |
//!
//! A session logs an entry [`Operation::DependOn`] before the first entry that depends. An `fsync` waits for its own log and for what that
//! depends on.

use crate::client::{Client, Halt, Turn};
use crate::errno::Error;
use crate::session::unexpected;
use crate::sync::{AtomicU64, Mutex, Ordering};
use cuesta_format::wire::{DEPENDENCIES_MAX, Request, Response};
use cuesta_format::{LogDependency, LogGeneration, LogPosition, Medium, Operation, SessionId};
use cuesta_media::planted::{self, Bug};
use std::cell::Cell;
use std::collections::HashMap;

/// How far the log of SharedFS's own session goes that this process has seen the effect of. One for a process.
#[derive(Debug)]
pub struct Observed {
    /// Twice the number of changes, and one more while one is made.
    version: AtomicU64,
    session: AtomicU64,
    generation: AtomicU64,
    position: AtomicU64,
}

impl Observed {
    /// Nothing was seen.
    #[must_use]
    pub const fn new() -> Observed {
        let [version, session, generation, position] = [const { AtomicU64::new(0) }; 4];
        Observed { version, session, generation, position }
    }

    /// An answer rests on everything below `seen`.
    pub fn note(&self, seen: LogDependency) {
        loop {
            let (version, latest) = self.latest();
            if latest.is_some_and(|latest| latest >= seen) {
                return;
            }
            if self
                .version
                .compare_exchange(version, version + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                self.session.store(seen.session.0, Ordering::Release);
                self.generation.store(seen.generation.0, Ordering::Release);
                self.position.store(seen.position.0, Ordering::Release);
                self.version.store(version + 2, Ordering::Release);
                return;
            }
        }
    }

    /// Forgets everything: in a child of fork, before anything else.
    pub fn forget(&self) {
        self.session.store(SessionId::NOBODY.0, Ordering::Relaxed);
        self.generation.store(0, Ordering::Relaxed);
        self.position.store(0, Ordering::Relaxed);
        self.version.store(0, Ordering::Release);
    }

    #[inline]
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What was seen, and the version of that.
    fn latest(&self) -> (u64, Option<LogDependency>) {
        loop {
            let version = self.version();
            let seen = LogDependency {
                session: SessionId(self.session.load(Ordering::Acquire)),
                generation: LogGeneration(self.generation.load(Ordering::Acquire)),
                position: LogPosition(self.position.load(Ordering::Acquire)),
            };
            if version.is_multiple_of(2) && self.version() == version {
                return (version, (version > 0).then_some(seen));
            }
            std::hint::spin_loop();
        }
    }
}

impl Default for Observed {
    fn default() -> Observed {
        Observed::new()
    }
}

/// What a session keeps of its dependencies.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    /// The version of [`Observed`] that the log depends on.
    observed_logged: AtomicU64,
    /// The version that the disk has.
    observed_durable: AtomicU64,
    /// In SharedFS's own session: the parts of programs' logs that its log depends on, and the disk may lack.
    senders: Mutex<HashMap<SessionId, LogDependency>>,
}

thread_local! {
    /// The operation that this thread performs was sent behind this part of its sender's log.
    static SENT_BEHIND: Cell<Option<LogDependency>> = const { Cell::new(None) };
}

/// Sets the thread's dependency back.
struct Before(Option<LogDependency>);

impl Drop for Before {
    fn drop(&mut self) {
        SENT_BEHIND.set(self.0);
    }
}

/// In the daemon: performs an operation that its sender sent behind a part of its own log.
pub fn behind<T>(part: Option<LogDependency>, operation: impl FnOnce() -> T) -> T {
    let _before = Before(SENT_BEHIND.replace(part));
    operation()
}

impl Client {
    /// How far the session's log goes, if the disk may lack some of it.
    #[must_use]
    pub fn undurable_end(&self) -> Option<LogDependency> {
        let session = &self.session;
        if session.welcome.medium != Medium::Block {
            return None;
        }
        loop {
            let generation = session.log_generation();
            let position = session.appender.completed();
            if session.log_generation() != generation {
                continue;
            }
            let is_durable = position <= session.appender.durable_until().max(session.digested());
            let end = LogDependency { session: session.welcome.session, generation, position };
            return (!is_durable).then_some(end);
        }
    }

    fn observed(&self) -> Option<&Observed> {
        self.shipping.shipper()?.observed()
    }

    /// Whether the log depends on something that it does not say. Looked at right before an entry gets its place: many an operation turns out
    /// to be one that is sent.
    #[inline]
    pub(crate) fn lacks_dependencies(&self) -> bool {
        self.session.welcome.medium == Medium::Block && !self.is_behind_all()
    }

    fn is_behind_all(&self) -> bool {
        let logged = self.dependencies.observed_logged.load(Ordering::Acquire);
        let is_logged = self.observed().is_none_or(|observed| observed.version() == logged);
        is_logged && SENT_BEHIND.get().is_none_or(|part| self.is_sender_logged(part))
    }

    fn is_sender_logged(&self, part: LogDependency) -> bool {
        self.dependencies.senders.lock().get(&part.session).is_some_and(|logged| *logged >= part)
    }

    /// Logs what [`Client::lacks_dependencies`] found missing.
    pub(crate) fn log_dependencies(&self) -> Result<(), Error> {
        if let Some(observed) = self.observed() {
            let (version, seen) = observed.latest();
            if version != self.dependencies.observed_logged.load(Ordering::Acquire) {
                seen.map_or(Ok(()), |seen| self.depend_on(seen))?;
                self.dependencies.observed_logged.fetch_max(version, Ordering::AcqRel);
            }
        }
        let Some(part) = SENT_BEHIND.get().filter(|part| !self.is_sender_logged(*part)) else {
            return Ok(());
        };
        self.depend_on(part)?;
        let mut senders = self.dependencies.senders.lock();
        let is_full = senders.len() >= DEPENDENCIES_MAX;
        let logged = senders.entry(part.session).or_insert(part);
        *logged = part.max(*logged);
        drop(senders);
        if is_full { self.make_senders_durable() } else { Ok(()) }
    }

    fn depend_on(&self, dependency: LogDependency) -> Result<(), Error> {
        self.operate(|turn| turn.append_dependency(dependency))
    }

    /// In SharedFS's own session: the disk has what its log depends on when this returns.
    pub(crate) fn make_senders_durable(&self) -> Result<(), Error> {
        let logs: Vec<LogDependency> = self.dependencies.senders.lock().values().copied().collect();
        for some in logs.chunks(DEPENDENCIES_MAX) {
            match self.session.ask(&Request::MakeDurable { logs: some.to_vec() })? {
                Response::Done => {}
                other => return Err(unexpected(&other)),
            }
        }
        let mut senders = self.dependencies.senders.lock();
        for log in logs {
            if senders.get(&log.session).is_some_and(|logged| *logged <= log) {
                senders.remove(&log.session);
            }
        }
        Ok(())
    }

    /// The version of what was seen so far: what [`Client::note_observed_durable`] is told when the disk has it.
    pub(crate) fn observed_version(&self) -> u64 {
        self.observed().map_or(0, |observed| observed.latest().0)
    }

    pub(crate) fn note_observed_durable(&self, version: u64) {
        self.dependencies.observed_durable.fetch_max(version, Ordering::AcqRel);
    }

    /// The disk has what this process saw of the log of SharedFS's own session when this returns.
    pub(crate) fn sync_observed(&self) -> Result<(), Error> {
        let version = self.observed_version();
        if version <= self.dependencies.observed_durable.load(Ordering::Acquire)
            || planted::active(Bug::ObservedUnsynced)
        {
            return Ok(());
        }
        self.shipping.shipper().map_or(Ok(()), |shipper| shipper.sync())?;
        self.note_observed_durable(version);
        Ok(())
    }
}

impl Turn<'_> {
    fn append_dependency(&mut self, dependency: LogDependency) -> Result<(), Halt> {
        let operation = Operation::DependOn { dependency };
        self.is_dependency = true;
        self.prepare(operation.body_bytes(), 0)?;
        self.append(&operation).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(session: u64, generation: u64, position: u64) -> LogDependency {
        LogDependency {
            session: SessionId(session),
            generation: LogGeneration(generation),
            position: LogPosition(position),
        }
    }

    #[test]
    fn what_was_seen_only_grows() {
        let observed = Observed::new();
        assert_eq!(observed.latest(), (0, None));
        observed.note(seen(3, 1, 640));
        assert_eq!(observed.latest(), (2, Some(seen(3, 1, 640))));
        observed.note(seen(3, 1, 128));
        assert_eq!(observed.latest(), (2, Some(seen(3, 1, 640))), "an answer that came late");
        observed.note(seen(3, 2, 64));
        assert_eq!(observed.latest(), (4, Some(seen(3, 2, 64))), "a log that started again");
        observed.note(seen(4, 1, 64));
        assert_eq!(observed.latest(), (6, Some(seen(4, 1, 64))), "the next daemon's");
        observed.forget();
        assert_eq!(observed.latest(), (0, None));
    }

    #[test]
    fn threads_that_see_answers_at_once_end_with_the_longest_part() {
        let observed = Observed::new();
        std::thread::scope(|threads| {
            for first in 1..4 {
                let observed = &observed;
                threads.spawn(move || (0..1000).for_each(|step| observed.note(seen(1, 1, first + step * 3))));
            }
        });
        assert_eq!(observed.latest().1, Some(seen(1, 1, 3 + 999 * 3)));
    }
}
