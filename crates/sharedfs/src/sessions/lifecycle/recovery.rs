//! Recovery: when a store is opened, all that its logs still hold goes into the shared area.
//!
//! Each log of the session table is digested from where its last digest committed to the first entry that is not
//! valid. That is every entry its process was told had happened, and perhaps the entry it was making. Then the
//! log's generation moves, durably. The session of a dead process ends like any other, as do all from before the
//! machine started. The session of a process that lives stays, without leases, until the process comes back
//! ([`SharedFs::resume`]) or ends. A crash in the middle finds the same logs, or shorter ones: recovering twice is
//! recovering once. A log that ends before its mark was damaged: the daemon tells the loss, and the session is over
//! ([`BrokenLog`]).

use super::processes::{Process, process};
use super::recovered::Recovered;
use crate::damage::{BrokenLog, LogLoss};
use crate::digest::driver::Digested;
use crate::digest::{Digester, Until};
use crate::sessions::{
    CommitFile, Control, Ending, LogFiles, OccupiedSlot, Presence, Segment, Session, open_segment_padded,
};
use crate::store::Core;
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::{InodeNumber, LeaseGeneration, LogPosition, SessionId};
use cuesta_media::planted::{self, Bug};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// What recovery found in one log.
struct RecoveredLog {
    entries: u64,
    is_damaged: bool,
}

/// Lets an operation pass that failed only for lack of space, and answers that error.
fn unless_full(done: Result<(), Error>) -> Result<Option<Error>, Error> {
    match done {
        Err(error @ Error::NoSpace) => Ok(Some(error)),
        done => done.map(|()| None),
    }
}

impl SharedFs {
    /// `all_dead`: no process can live that had a session. `lost_memory`: the disk has all there is of the logs.
    pub(crate) fn recover(
        &self,
        occupied: Vec<OccupiedSlot>,
        all_dead: bool,
        lost_memory: bool,
    ) -> Result<Recovered, Error> {
        let started = Instant::now();
        let mut recovered = Recovered { sessions: occupied.len() as u64, ..Recovered::default() };
        self.digester.lock().orphans = self.metadata.read()?.orphans()?.into_iter().collect();
        let cuts = self.cuts_of(&occupied, lost_memory)?;
        for slot in occupied {
            if slot.1.ended {
                self.finish_ending(slot)?;
            } else {
                let cut = cuts.get(&slot.1.session).copied();
                let found = self.recover_session(slot, all_dead, cut)?;
                recovered.entries += found.entries;
                recovered.damaged_logs += u64::from(found.is_damaged);
            }
        }
        self.forget_callers(all_dead)?;
        self.forget_the_dead()?;
        recovered.milliseconds = started.elapsed().as_millis() as u64;
        Ok(recovered)
    }

    /// Goes on where the end of a session was broken off.
    fn finish_ending(&self, (slot, record): OccupiedSlot) -> Result<(), Error> {
        if self.remove_segments(&record.all_segments().collect::<Vec<_>>()) {
            self.core.lock().table.release(slot)?;
        }
        Ok(())
    }

    /// `cut`: nothing of its log from there on may survive.
    fn recover_session(
        &self,
        (slot, record): OccupiedSlot,
        is_dead: bool,
        cut: Option<LogPosition>,
    ) -> Result<RecoveredLog, Error> {
        let started = Instant::now();
        let (id, pid) = (record.session, record.pid);
        let known = self.metadata.read()?.session(id)?.unwrap_or_default();
        let mut segments = Vec::with_capacity(record.segments.len());
        for &segment in &record.segments {
            segments.push(open_segment_padded(&self.parts, self.geometry().segment_bytes, segment)?);
        }
        let commit_file = match record.commit_file {
            Some(id) => Some(CommitFile {
                geometry: self.geometry(),
                segment: open_segment_padded(&self.parts, self.geometry().segment_bytes, id)?,
            }),
            None => None,
        };
        let mut session =
            Session::new(record.pid, String::new(), slot, record, segments, Arc::new(Control::new()?));
        session.commit_file = commit_file;
        session.cut = cut;
        session.digested = session.digested.max(known.digested);
        let from = session.digested;
        let is_short = session.segments.iter().any(Segment::is_short);
        self.core.lock().sessions.insert(id, session);

        let mut digester = self.digester.lock();
        let is_lost = planted::active(Bug::LostAtRestart) && self.may_come_back(pid).is_some();
        let digested = match is_lost {
            true => Digested { entries: 0, rejected: false },
            false => self.digest_to_the_end(&mut digester, id)?,
        };
        // A log that ends where another one lost something is whole itself.
        let (digested, loss) = match is_lost || digested.rejected || cut.is_some() {
            true => (digested, None),
            false => self.judge(&mut digester, id, digested)?,
        };
        if let Some(loss) = &loss {
            self.tell_log_loss(loss)?;
        }
        let found = RecoveredLog { entries: digested.entries, is_damaged: loss.is_some() };
        let to = {
            let mut core = self.core.lock();
            let Core { sessions, table, .. } = &mut *core;
            let Some(session) = sessions.get_mut(&id) else { return Ok(found) };
            // What its process did since was for a daemon that is gone.
            session.lease_generation = LeaseGeneration(session.lease_generation.0 + 1);
            if session.record.away_below == InodeNumber::NONE {
                // It has not come back since, so it opened nothing that is made from now on.
                session.record.away_below = table.head().inode_limit;
            }
            session.renew_log(table)?;
            session.cut = None;
            session.digested
        };
        let process = if is_dead { Process::Dead } else { process(pid) };
        let ending = match process {
            Process::Alive(process)
                if self.options.await_sessions && !digested.rejected && loss.is_none() && !is_short =>
            {
                self.await_session(id, process);
                None
            }
            Process::Dead => Some(Ending::Gone),
            Process::Alive(_) | Process::Stranger => Some(Ending::GivenUp),
        };
        if let Some(ending) = ending {
            match self.end(&mut digester, id, ending) {
                // Its log is digested: the session ends when there is room.
                Err(Error::NoSpace) => self.end_later(id, ending),
                ended => ended?,
            }
        }
        let microseconds = started.elapsed().as_micros() as u64;
        self.events.record(Step::Recover { session: id, from, to, entries: digested.entries, microseconds });
        Ok(found)
    }

    /// Digests a log to its end, in its own pages and its commit file together: where the one breaks off the other may go on.
    fn digest_to_the_end(&self, digester: &mut Digester, session: SessionId) -> Result<Digested, Error> {
        let mut total = self.digest_all(digester, session, Until::Break)?;
        while !total.rejected && self.mend_log(session)? {
            let more = self.digest_all(digester, session, Until::Break)?;
            total = Digested { entries: total.entries + more.entries, rejected: more.rejected };
            if more.entries == 0 {
                break;
            }
        }
        Ok(total)
    }

    /// Whether the log that was digested to its end was damaged there. Its process may live, and have gone on while it was looked at:
    /// then it ends elsewhere.
    fn judge(
        &self,
        digester: &mut Digester,
        session: SessionId,
        mut digested: Digested,
    ) -> Result<(Digested, Option<LogLoss>), Error> {
        loop {
            let Some(loss) = self.loss_of(session)? else { return Ok((digested, None)) };
            let more = self.digest_to_the_end(digester, session)?;
            digested = Digested { entries: digested.entries + more.entries, rejected: more.rejected };
            if more.entries == 0 {
                return Ok((digested, Some(loss)));
            }
            if more.rejected {
                return Ok((digested, None));
            }
        }
    }

    /// The loss of a log that is digested as far as it is whole.
    pub(crate) fn loss_of(&self, session: SessionId) -> Result<Option<LogLoss>, Error> {
        Ok(self.with_broken_log(session, |log| log.loss())?.flatten())
    }

    /// How far a log was acknowledged, as what lies behind its digested part says.
    pub(crate) fn acknowledged_of(&self, session: SessionId) -> Result<LogPosition, Error> {
        Ok(self.with_broken_log(session, |log| log.acknowledged())?.unwrap_or_default())
    }

    /// The answer of a session's log behind its digested part; `None`: there is no such session.
    fn with_broken_log<R>(
        &self,
        session: SessionId,
        ask: impl FnOnce(&BrokenLog<'_>) -> std::io::Result<R>,
    ) -> Result<Option<R>, Error> {
        let (files, commit_file, slot, end, salt) = {
            let core = self.core.lock();
            let Some(found) = core.sessions.get(&session) else { return Ok(None) };
            let files =
                LogFiles { geometry: self.geometry(), segments: found.segments.clone(), emulated: None };
            let salt = found.salt(self.superblock.store);
            (files, found.commit_file.clone(), found.slot, found.digested, salt)
        };
        let (marks, commit_file) = (&self.marks.read(), commit_file.as_ref());
        let log = BrokenLog { session, slot, files: &files, commit_file, marks, salt, end };
        ask(&log).map(Some).map_err(Error::io("read a log"))
    }

    /// Puts into a log that breaks off where it is digested what its commit file has behind that. Says whether that was anything.
    fn mend_log(&self, session: SessionId) -> Result<bool, Error> {
        let (log, commit_file, digested, salt) = {
            let core = self.core.lock();
            let Some(found) = core.sessions.get(&session) else { return Ok(false) };
            let Some(commit_file) = &found.commit_file else { return Ok(false) };
            let log =
                LogFiles { geometry: self.geometry(), segments: found.segments.clone(), emulated: None };
            (log, commit_file.clone(), found.digested, found.salt(self.superblock.store))
        };
        if planted::active(Bug::CommitFileForgotten) {
            return Ok(false);
        }
        commit_file.put_into(&log, digested, salt).map_err(Error::io("read a commit file"))
    }

    /// The process of a session that was recovered, if it may come back to the next daemon.
    pub(crate) fn may_come_back(&self, pid: u32) -> Option<OwnedFd> {
        match process(pid) {
            Process::Alive(process) if self.options.await_sessions => Some(process),
            _ => None,
        }
    }

    /// A session keeps its log and its open inodes until its process comes back, or ends.
    fn await_session(&self, session: SessionId, process: OwnedFd) {
        let mut core = self.core.lock();
        let Some(found) = core.sessions.get_mut(&session) else { return };
        let mut space = self.space.lock();
        space.credits.settle(found.promised());
        space.allocator.retired(session, found.digested);
        // The credit it reads now does not count, and its debits it will make anew.
        (found.credit_limit, found.debited) = (0, 0);
        found.reports.clear();
        found.presence = Presence::Away(Arc::new(process));
        found.publish(&self.options);
    }

    /// Removes rows of sessions that are not in the table any more, and inodes without a name that no program
    /// has open. On a full medium rows go with the next digest, and inodes at a later start.
    fn forget_the_dead(&self) -> Result<(), Error> {
        let mut digester = self.digester.lock();
        if let Some(full) = unless_full(self.forget_orphans(&mut digester))? {
            tracing::warn!(error = %full, "files that no program has open any more are removed at a later start");
        }
        let snapshot = self.metadata.read()?;
        let (rows, mut windows) = (snapshot.sessions()?, snapshot.windows()?);
        drop(snapshot);
        windows.retain(|(session, ..)| !self.core.lock().sessions.contains_key(session));
        if !rows.is_empty() || !windows.is_empty() {
            let mut transaction = self.metadata.begin()?;
            for &(session, _) in &rows {
                transaction.remove_session(session);
            }
            for (session, address, _) in windows {
                transaction.put_window(session, address, None);
            }
            let full = unless_full(transaction.commit().map_err(Error::from))?.is_some();
            if full {
                let core = self.core.lock();
                let gone = rows.iter().map(|&(session, _)| session);
                digester.ended = gone.filter(|session| !core.sessions.contains_key(session)).collect();
                return Ok(());
            }
        }
        digester.ended.clear();
        Ok(())
    }
}
