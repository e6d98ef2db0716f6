//! A session begins, or comes back to a daemon that started after it.
//!
//! The table of sessions says so before the session is told, though the disk need not have it yet. Descriptors go with the answer.

use crate::Error;
use crate::digest::policy;
use crate::sessions::{Control, Presence, Session};
use crate::store::{Core, SessionHandle, SharedFs, channels};
use cuesta_format::event::Step;
use cuesta_format::session_table::SessionRecord;
use cuesta_format::wire::Welcome;
use cuesta_format::{Durability, InodeNumber, LeaseGeneration, LogGeneration, LogPosition, SessionId};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Session numbers are taken from the table's head in such steps.
const SESSION_STEP: u64 = 64;

impl SharedFs {
    /// Begins a session. Descriptors: notice page, client page, eventfd, incarnation page, references folder,
    /// and the channels of a medium that is played, if one is.
    pub fn attach(&self, pid: u32, program: &str) -> Result<(SessionHandle, Welcome, Vec<OwnedFd>), Error> {
        let _attaching = self.attaching.read();
        let ready = self.controls.lock().pop();
        let control = Arc::new(ready.map_or_else(Control::new, Ok)?);
        let [notice, client, kick] = control.descriptors()?;
        let incarnation = self.incarnation.descriptor()?;
        let mut descriptors = vec![notice, client, kick, incarnation, self.references.descriptor()?];
        if self.emulated.is_some() || self.arenas.played().next().is_some() {
            descriptors.push(channels(&self.tier)?);
        }
        let mut core = self.core.lock();
        let id = core.next_session;
        if id >= core.table.head().next_session {
            let mut head = core.table.head();
            head.next_session = SessionId(id.0 + SESSION_STEP);
            core.table.set_head(head)?;
        }
        let record = SessionRecord {
            session: id,
            pid,
            log_generation: LogGeneration(1),
            lease_generation: LeaseGeneration(1),
            start: LogPosition(0),
            ended: false,
            away_below: InodeNumber::NONE,
            segments: Vec::new(),
            commit_file: None,
        };
        core.next_session = SessionId(id.0 + 1);
        let (inode_first, inode_count) = self.grant_numbers(&mut core, id, self.options.inode_numbers)?;
        // Last, for nothing may fail behind it: the slot is the session's from here on.
        let slot = match core.table.occupy(&record) {
            Ok(Some(slot)) => slot,
            failed => {
                core.leases.end_session(id);
                return Err(failed.err().unwrap_or(Error::TooManySessions));
            }
        };
        let welcome = self.welcome(&record, (inode_first, inode_count));
        let program = program.to_owned();
        let session = Session::new(pid, program, slot, record, Vec::new(), Arc::clone(&control));
        session.publish(&self.options);
        session.control.publish_quotas(self.quotas.lock().shown());
        session.control.publish_sync_habit(self.counters.sync_habit());
        core.sessions.insert(id, session);
        if self.epochs.has_failed() {
            control.publish_unwritable();
        }
        self.share_out_entries(&core.sessions);
        drop(core);
        self.first_calls.attached(pid);
        self.events.record(Step::Attach { session: id, pid });
        Ok((SessionHandle { session: id, control }, welcome, descriptors))
    }

    /// A session of an earlier daemon goes on: its process has come back. Descriptors as for [`SharedFs::attach`], but
    /// for the last, which it has, or goes on without.
    pub fn resume(
        &self,
        session: SessionId,
        pid: u32,
        program: &str,
    ) -> Result<(SessionHandle, Welcome, Vec<OwnedFd>), Error> {
        let incarnation = self.incarnation.descriptor()?;
        let references = self.references.descriptor()?;
        let mut core = self.core.lock();
        let is_away = |found: &&mut Session| matches!(found.presence, Presence::Away(_)) && found.pid == pid;
        let Some(found) = core.sessions.get_mut(&session).filter(is_away) else {
            return Err(Error::NoSession);
        };
        let control = Arc::clone(&found.control);
        let [notice, client, kick] = control.descriptors()?;
        let numbers = self.grant_numbers(&mut core, session, self.options.inode_numbers)?;
        let Core { sessions, table, .. } = &mut *core;
        let Some(found) = sessions.get_mut(&session) else { return Err(Error::NoSession) };
        // Before it can open anything: when this daemon has died, that may be whatever there was then.
        found.record.away_below = InodeNumber::NONE;
        table.write(found.slot, &found.record)?;
        found.control.publish_quotas(self.quotas.lock().shown());
        found.presence = Presence::Returning;
        if self.epochs.has_failed() {
            found.control.publish_unwritable();
        }
        program.clone_into(&mut found.program);
        let welcome = self.welcome(&found.record, numbers);
        self.share_out_entries(&core.sessions);
        drop(core);
        self.events.record(Step::Attach { session, pid });
        let descriptors = vec![notice, client, kick, incarnation, references];
        Ok((SessionHandle { session, control }, welcome, descriptors))
    }

    fn welcome(&self, record: &SessionRecord, (inode_first, inode_count): (InodeNumber, u32)) -> Welcome {
        Welcome {
            store: self.superblock.store,
            medium: self.superblock.medium,
            emulated: self.profile(),
            persistence_domain: self.options.persistence_domain.of(self.region),
            geometry: self.superblock.geometry,
            session: record.session,
            log_generation: record.log_generation,
            start: record.start,
            lease_generation: record.lease_generation,
            incarnation: self.incarnation.number(),
            commit_file_waits: self.options.commit_file_waits,
            awake_us: self.options.awake_us,
            lower_tiers: self.arenas.tiers_count() - 1,
            played: self.arenas.played().collect(),
            stage_bytes: if self.grants_windows() { self.options.stage_bytes } else { 0 },
            durability: Durability::Pessimistic,
            optimistic_ms_max: self.options.optimistic_ms_max,
            inode_first,
            inode_count,
            stand_ins: self.stand_ins.named().as_os_str().as_encoded_bytes().to_vec(),
            ahead: Vec::new(),
        }
    }

    /// The processes whose sessions have not come back yet.
    #[must_use]
    pub fn awaited(&self) -> Vec<(SessionId, Arc<OwnedFd>)> {
        let core = self.core.lock();
        let away = |(&session, found): (&SessionId, &Session)| match &found.presence {
            Presence::Away(process) => Some((session, Arc::clone(process))),
            Presence::Here | Presence::Returning => None,
        };
        core.sessions.iter().filter_map(away).collect()
    }

    /// Tells each session how many entries it may leave undigested, now that there are more or fewer of them.
    pub(crate) fn share_out_entries(&self, sessions: &BTreeMap<SessionId, Session>) {
        let share = policy::entries_share(&self.options, sessions.len());
        sessions.values().for_each(|session| session.control.publish_entries_max(share));
    }

    /// Inode numbers that were never given before, durably taken.
    pub(crate) fn grant_numbers(
        &self,
        core: &mut Core,
        session: SessionId,
        count: u32,
    ) -> Result<(InodeNumber, u32), Error> {
        let first = core.table.take_numbers(count)?;
        core.leases.grant_numbers(session, first, count);
        Ok((first, count))
    }
}
