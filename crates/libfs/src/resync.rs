//! Going on after a fence: throwing away what is not true any more, and saying which entries were accepted.

use crate::client::Client;
use crate::errno::Error;
use crate::session::unexpected;
use crate::sync::Ordering;
use cuesta_format::wire::{Request, Response, Resynced};
use cuesta_format::{InodeNumber, LogPosition};
use hashbrown::HashSet;
use std::collections::VecDeque;

/// Outcomes kept for operations that have yet to ask.
const OUTCOMES_MAX: usize = 4096;

/// How earlier fences of this session ended.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// (generation operations ran under, their entries were accepted up to here).
    outcomes: VecDeque<(u64, LogPosition)>,
    /// The next daemon took the session up, and has not said yet what it accepted: every lease is gone.
    resumed: bool,
}

impl Fences {
    /// Says that the next daemon took the session up.
    pub(crate) fn resume(&mut self) {
        self.resumed = true;
    }
}

impl Client {
    /// Learns what a moved generation means. Whoever comes first does it for all.
    pub(crate) fn resync(&self) -> Result<(), Error> {
        let _closed = self.gate.write();
        if !self.session.stands() {
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
        let Response::Resynced(resynced) = answer else {
            return Err(unexpected(&answer));
        };
        self.session.quotas.forget();
        let mut fences = self.fences.lock();
        if std::mem::take(&mut fences.resumed) {
            self.forget_everything();
        } else {
            self.forget_untrue(&resynced);
            self.give_back_void_debits(resynced.accepted);
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

    /// Inodes whose lease is gone, and those the log held anything of: accepted entries are digested now, the
    /// others void, and either way the shared area knows better. Of what lies in parcels the log holds nothing.
    fn forget_untrue(&self, resynced: &Resynced) {
        let retired = self.session.retired();
        let revoked: HashSet<InodeNumber> = resynced.revoked.iter().copied().collect();
        for &inode in &revoked {
            drop(self.session.parcels.take(inode));
        }
        for inode in self.cache.all() {
            let mut state = inode.state.write();
            if state.lease.is_some() && (state.logged > retired || revoked.contains(&inode.number)) {
                state.forget();
            }
        }
    }

    /// What the next daemon knows better, or might.
    fn forget_everything(&self) {
        self.session.parcels.forget();
        for inode in self.cache.all() {
            let mut state = inode.state.write();
            if state.lease.is_some() {
                state.forget();
            }
        }
    }

    /// Debits of void entries are never seen by a digest: they are taken back.
    fn give_back_void_debits(&self, accepted: LogPosition) {
        let appender = &self.session.appender;
        let mut at = accepted;
        while at < appender.completed() {
            let Some(header) = appender.header_at(at) else { break };
            self.session.give_back_debit(u64::from(header.debit_blocks));
            at = header.end();
        }
    }
}
