//! Parts of other logs without which this session's log must not survive, on medium `block`
//! ([`cuesta_format::dependency`]).
//!
//! | session | depends on | how it learns of that |
//! |---|---|---|
//! | of a program | the log of SharedFS's own session | each answer says how far that log goes ([`Observed`]) |
//! | SharedFS's own | the logs of programs that send operations | each operation that is sent says how far its sender's log goes ([`behind`]) |
//!
//! | any, while the store goes by epochs | the present epoch | a page that all sessions see ([`crate::log::epochs`]) |
//!
//! A session logs an entry [`Operation::DependOn`] before the first entry that depends. An `fsync` waits for
//! its own log and for the parts that it depends on.

use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::{Error, unexpected};
use crate::sharing::observed::Observed;
use crate::sync::Ordering;
use cuesta_format::wire::{DEPENDENCIES_MAX, Request, Response};
use cuesta_format::{LogDependency, Medium, Operation};
use cuesta_media::planted;
use cuesta_media::planted::Bug;
use std::cell::Cell;

thread_local! {
    /// The part of the sender's log behind which the sender sent the operation that this thread performs.
    static SENT_BEHIND: Cell<Option<LogDependency>> = const { Cell::new(None) };
}

/// Restores the thread's earlier dependency.
struct RestoreDependency(Option<LogDependency>);

impl Drop for RestoreDependency {
    fn drop(&mut self) {
        SENT_BEHIND.set(self.0);
    }
}

/// In the daemon: performs an operation that its sender sent behind a part of its own log.
pub fn behind<T>(part: Option<LogDependency>, operation: impl FnOnce() -> T) -> T {
    let _restore = RestoreDependency(SENT_BEHIND.replace(part));
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

    /// Whether the log depends on something that it has not declared. It is checked right before an entry is
    /// placed, because many an operation turns out to be one that is sent.
    #[inline]
    pub(crate) fn lacks_dependencies(&self) -> bool {
        self.session.welcome.medium == Medium::Block && (self.session.lacks_epoch() || !self.is_behind_all())
    }

    fn is_behind_all(&self) -> bool {
        let logged = self.dependencies.observed_logged.load(Ordering::Acquire);
        let is_logged = self.observed().is_none_or(|observed| observed.version() == logged);
        is_logged && SENT_BEHIND.get().is_none_or(|part| self.is_sender_logged(part))
    }

    fn is_sender_logged(&self, part: LogDependency) -> bool {
        self.dependencies.senders.lock().get(&part.session).is_some_and(|logged| *logged >= part)
    }

    /// Logs the dependencies that [`Client::lacks_dependencies`] found missing.
    pub(crate) fn log_dependencies(&self) -> Result<(), Error> {
        if let Some(epoch) = self.session.epoch_to_log() {
            self.depend_on(LogDependency::on_epoch(epoch))?;
            self.session.note_epoch_logged(epoch);
        }
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
        self.operate(|attempt| attempt.append_dependency(dependency))
    }

    /// In SharedFS's own session: makes the parts of other logs durable that its log depends on.
    pub(crate) fn make_senders_durable(&self) -> Result<(), Error> {
        let logs: Vec<LogDependency> = self.dependencies.senders.lock().values().copied().collect();
        for some in logs.chunks(DEPENDENCIES_MAX) {
            self.make_durable(some.to_vec())?;
        }
        let mut senders = self.dependencies.senders.lock();
        for log in logs {
            if senders.get(&log.session).is_some_and(|logged| *logged <= log) {
                senders.remove(&log.session);
            }
        }
        Ok(())
    }

    /// Waits until the disk has these parts of logs.
    pub(crate) fn make_durable(&self, logs: Vec<LogDependency>) -> Result<(), Error> {
        match self.session.ask(&Request::MakeDurable { logs })? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// The version of what this process has seen so far. The caller passes it to
    /// [`Client::note_observed_durable`] once the disk has it.
    pub(crate) fn observed_version(&self) -> u64 {
        self.observed().map_or(0, |observed| observed.latest().0)
    }

    pub(crate) fn note_observed_durable(&self, version: u64) {
        self.dependencies.observed_durable.fetch_max(version, Ordering::AcqRel);
    }

    /// Makes durable what this process has seen of the log of SharedFS's own session.
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

impl Attempt<'_> {
    fn append_dependency(&mut self, dependency: LogDependency) -> Result<(), Halt> {
        let operation = Operation::DependOn { dependency };
        self.is_dependency = true;
        self.prepare(operation.body_bytes(), 0)?;
        self.append(&operation).map(drop)
    }
}
