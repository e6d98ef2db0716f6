//! Resynchronising after a fence: dropping cached state that is no longer true, and recording which entries
//! SharedFS accepted.
//!
//! Sessions that want the same inodes fence each other a thousand times a second. So the session drops only
//! state under the leases that the fence took. SharedFS has digested the entries that it accepted, and its
//! answer brings the report. They are retired as usual. The other entries never happened: the session forgets
//! the inodes that they changed. If all names of a revoked directory were known, the session keeps them, and
//! the next lease brings the names that changed ([`KeptNames`]).

use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use crate::leases::fences::OUTCOMES_MAX;
use crate::sync::Ordering;
use cuesta_format::entry::EntryKind;
use cuesta_format::wire::{DOUBTFUL_MAX, KeptNames, Report, Request, Response, Resynced};
use cuesta_format::{InodeNumber, LogPosition, Operation};
use hashbrown::HashSet;

/// The inodes and names that void entries changed.
#[derive(Debug, Default)]
struct Voided {
    inodes: HashSet<InodeNumber>,
    names: Vec<(InodeNumber, Vec<u8>)>,
    /// Blocks they debited.
    debits: u64,
}

impl Client {
    /// Finds out why the generation moved. The first thread does it for all.
    pub(crate) fn resync(&self) -> Result<(), Error> {
        let _closed = self.gate.write();
        if !self.session.daemon_is_current() && !self.session.ask_daemon_is_current() {
            return Err(Error::Disconnected);
        }
        if self.session.shown_generation() == self.session.generation.load(Ordering::Acquire) {
            return Ok(());
        }
        self.resync_closed()
    }

    /// Like [`Client::resync`], for a thread that holds the gate closed.
    pub(crate) fn resync_closed(&self) -> Result<(), Error> {
        let generation = self.session.generation.load(Ordering::Acquire);
        let answer = self.session.ask(&Request::Resync)?;
        let Response::Resynced(mut resynced) = answer else {
            return Err(unexpected(&answer));
        };
        self.session.quotas.forget();
        self.note_taken(&resynced.revoked);
        let mut fences = self.fences.lock();
        if std::mem::take(&mut fences.resumed) {
            self.forget_everything();
        } else {
            let voided = self.voided(resynced.accepted);
            if resynced.revoked_all {
                self.forget_everything();
            } else {
                let report = std::mem::take(&mut resynced.report);
                self.forget_untrue(&resynced, report, &voided);
            }
            // No digest will ever see these entries.
            self.session.give_back_debit(voided.debits);
        }
        fences.outcomes.push_back((generation, resynced.accepted));
        if fences.outcomes.len() > OUTCOMES_MAX {
            fences.outcomes.pop_front();
        }
        drop(fences);
        self.session.restart(resynced.resume, resynced.log_generation);
        self.retiring.lock().restart(resynced.resume);
        self.session.generation.store(resynced.lease_generation.0, Ordering::Release);
        Ok(())
    }

    /// Whether SharedFS accepted an entry that ends at `end`. It was appended under `generation`, which has
    /// moved since.
    pub(crate) fn was_accepted(&self, generation: u64, end: LogPosition) -> bool {
        let fences = self.fences.lock();
        let outcome = fences.outcomes.iter().rev().find(|(under, _)| *under == generation);
        outcome.is_some_and(|&(_, accepted)| end <= accepted)
    }

    /// Forgets the inodes whose lease is gone, and those that void entries changed. The shared area knows
    /// better. The log holds nothing of inodes in parcels.
    fn forget_untrue(&self, resynced: &Resynced, report: Report, voided: &Voided) {
        if self.retire_accepted(resynced.accepted, report).is_err() {
            // It is unknown where this content lies now. So the session forgets every inode that the log
            // holds anything of.
            self.cache.forget_logged_behind(self.session.retired());
        }
        for &inode in &voided.inodes {
            self.forget(inode, resynced, voided);
        }
        for &inode in &resynced.revoked {
            drop(self.session.parcel_store.take(inode));
            self.forget(inode, resynced, voided);
        }
    }

    /// Forgets an inode, but keeps the names of a revoked directory.
    fn forget(&self, inode: InodeNumber, resynced: &Resynced, voided: &Voided) {
        let Some(known) = self.cache.get(inode) else { return };
        let mut state = known.state.write();
        if state.lease.is_none() {
            return;
        }
        let doubtful = voided.names.iter().filter(|(directory, _)| *directory == inode);
        let doubtful: Vec<Vec<u8>> = doubtful.map(|(_, name)| name.clone()).collect();
        match resynced.versions.iter().find(|(directory, _)| *directory == inode) {
            Some(&(_, version)) if doubtful.len() <= DOUBTFUL_MAX => {
                state.forget_keeping_names(KeptNames { version, doubtful });
            }
            _ => state.forget(),
        }
    }

    /// Forgets everything, after all leases were lost.
    fn forget_everything(&self) {
        self.session.parcel_store.forget();
        self.cache.forget_all();
    }

    /// The entries in the log behind the accepted ones.
    fn voided(&self, accepted: LogPosition) -> Voided {
        let appender = &self.session.appender;
        let mut voided = Voided::default();
        let mut body = Vec::new();
        let mut at = accepted;
        while at < appender.completed() {
            let Some(header) = appender.header_at(at) else { break };
            voided.debits += u64::from(header.debit_blocks);
            voided.inodes.insert(header.inode);
            // The body of a write names nothing more.
            if header.kind != EntryKind::Write && appender.body_at(at, &header, &mut body) {
                let operation = Operation::decode(&header, &body).unwrap_or(Operation::Void);
                voided.inodes.extend(operation.changes());
                let names = operation.names().into_iter().flatten();
                voided.names.extend(names.map(|(directory, name)| (directory, name.to_vec())));
            }
            at = header.end();
        }
        voided
    }
}
