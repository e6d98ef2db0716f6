//! Making room for the next entry: log space, entries that may lie undigested, and credit.
//!
//! The operation loop calls this between attempts, outside the gate.

use crate::client::client::Client;
use crate::client::retries::{DIGEST_TRIES, Retries};
use crate::errno::Error;
use cuesta_format::{LogDependency, LogPosition};

impl Client {
    /// Makes room up to `needed`: by growing the log, by retiring, by waiting for a digest.
    pub(crate) fn make_room(&self, needed: LogPosition) -> Result<(), Error> {
        let mut looks = Retries::new(DIGEST_TRIES);
        loop {
            self.check_alive()?;
            let session = &self.session;
            if session.grow_towards(needed)? || session.appender.limit() >= needed {
                return Ok(());
            }
            let before = session.retired();
            self.retire_towards(needed)?;
            if session.retired() > before || session.appender.limit() >= needed || self.session.is_fenced() {
                return Ok(());
            }
            if !session.is_fully_grown() && before >= session.appender.completed() {
                return Err(Error::NoSpace);
            }
            let digested = session.digested();
            session.wait_digest(before)?;
            self.count_digest_wait(&mut looks, digested)?;
        }
    }

    /// Waits until the log holds fewer entries than recovery may have to digest.
    pub(crate) fn await_digest_of_entries(&self) -> Result<(), Error> {
        let mut looks = Retries::new(DIGEST_TRIES);
        loop {
            self.check_alive()?;
            let seen = self.session.digested();
            if !self.session.holds_too_many_entries() || self.session.is_fenced() {
                return Ok(());
            }
            self.session.wait_digest(seen)?;
            self.count_digest_wait(&mut looks, seen)?;
        }
    }

    /// In optimistic mode, waits until the disk has the oldest epoch that it lacks: the cut that is going on is enough. A disk
    /// that fails is reported by `fsync`, and holds up no other operation.
    pub(crate) fn await_disk(&self) -> Result<(), Error> {
        match self.with_daemon(|| self.await_oldest_epoch()) {
            Err(_) if self.session.has_unwritable_log() => Ok(()),
            waited => waited,
        }
    }

    /// Waits until the disk has the oldest epoch that it lacks.
    pub(crate) fn await_oldest_epoch(&self) -> Result<(), Error> {
        self.make_durable(vec![LogDependency::on_epoch(self.session.oldest_unwritten_epoch())])
    }

    /// Counts a look for a digest as a failure as long as nothing is digested.
    fn count_digest_wait(&self, looks: &mut Retries, before: LogPosition) -> Result<(), Error> {
        if self.session.digested() > before {
            *looks = Retries::new(DIGEST_TRIES);
        }
        self.retry(looks, "the daemon does not digest the log")
    }

    /// Gets credit for `blocks`. If the store is full, SharedFS first frees what this session deleted.
    pub(crate) fn make_credit(&self, blocks: u64) -> Result<(), Error> {
        if self.session.ask_credit(blocks)? {
            return Ok(());
        }
        self.digest()?;
        if self.session.ask_credit(blocks)? {
            return Ok(());
        }
        Err(Error::NoSpace)
    }
}
