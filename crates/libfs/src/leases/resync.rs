//! Going on after a fence: throwing away what is not true any more, and saying which entries were accepted.
//!
//! Sessions that want the same inodes fence each other a thousand times a second, so what is thrown away is what the fence
//! took, and no more. What was accepted is digested: it is retired, as at any other time, with the report that comes with
//! SharedFS's answer. What was not never happened: the inodes it was about are forgotten. Of a directory that was taken, all
//! names are kept, if all were known: with the next lease come those that changed ([`Kept`]).

use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use crate::leases::fences::OUTCOMES_MAX;
use crate::sync::Ordering;
use cuesta_format::entry::EntryKind;
use cuesta_format::wire::{DOUBTFUL_MAX, Kept, Report, Request, Response, Resynced};
use cuesta_format::{InodeNumber, LogPosition, Operation};
use hashbrown::HashSet;

/// What the entries were about that were not accepted.
#[derive(Debug, Default)]
struct Voided {
    inodes: HashSet<InodeNumber>,
    names: Vec<(InodeNumber, Vec<u8>)>,
    /// Blocks they debited.
    debits: u64,
}

impl Client {
    /// Learns what a moved generation means. Whoever comes first does it for all.
    pub(crate) fn resync(&self) -> Result<(), Error> {
        let _closed = self.gate.write();
        if !self.session.stands() && !self.session.stands_as_asked() {
            return Err(Error::Disconnected);
        }
        if self.session.shown_generation() == self.session.generation.load(Ordering::Acquire) {
            return Ok(());
        }
        self.resync_closed()
    }

    /// The same by who holds the gate closed.
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
            // No digest ever sees them.
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

    /// Whether an entry that ends at `end`, appended under `generation` which has moved since, was accepted.
    pub(crate) fn was_accepted(&self, generation: u64, end: LogPosition) -> bool {
        let fences = self.fences.lock();
        let outcome = fences.outcomes.iter().rev().find(|(under, _)| *under == generation);
        outcome.is_some_and(|&(_, accepted)| end <= accepted)
    }

    /// Inodes whose lease is gone, and those that entries were about which are void: the shared area knows better. Of what
    /// lies in parcels the log holds nothing.
    fn forget_untrue(&self, resynced: &Resynced, report: Report, voided: &Voided) {
        if self.retire_accepted(resynced.accepted, report).is_err() {
            // Where it lies now is not known: all that the log held anything of is asked for again.
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

    /// Forgets an inode, all but the names of a directory that was taken from this session.
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
                state.forget_keeping_names(Kept { version, doubtful });
            }
            _ => state.forget(),
        }
    }

    /// What is known better elsewhere, or might be.
    fn forget_everything(&self) {
        self.session.parcel_store.forget();
        self.cache.forget_all();
    }

    /// What lies in the log behind what was accepted.
    fn voided(&self, accepted: LogPosition) -> Voided {
        let appender = &self.session.appender;
        let mut voided = Voided::default();
        let mut body = Vec::new();
        let mut at = accepted;
        while at < appender.completed() {
            let Some(header) = appender.header_at(at) else { break };
            voided.debits += u64::from(header.debit_blocks);
            voided.inodes.insert(header.inode);
            // What is written says nothing more.
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
