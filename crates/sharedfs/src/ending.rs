//! Fences, and how sessions end: everything that takes leases from a session without asking it.

use crate::creation::sync_folder;
use crate::digest::{Digester, Until};
use crate::leases::{Leases, Outcome};
use crate::metadata::MetadataError;
use crate::requests::Ahead;
use crate::sessions::{Presence, Session, SessionTable};
use crate::store::Core;
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::geometry::{LOGS_FOLDER, segment_path};
use cuesta_format::wire::LeaseMode;
use cuesta_format::{FileKind, InodeNumber, LogGeneration, SegmentId, SessionId};
use cuesta_media::planted::{self, Bug};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It said so, or its socket closed because its process is gone: it writes no more.
    Gone,
    /// It is given up while its process may live on and write.
    GivenUp,
}

/// One session's question for a lease that another one holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    /// The session that asks.
    pub by: SessionId,
    /// The inode it asks for.
    pub inode: InodeNumber,
    /// Whether it asks to read the inode or to change it.
    pub mode: LeaseMode,
    /// Inodes near it, on which the fenced session's leases end as well.
    pub ahead: &'a Ahead,
}

/// What a session loses in the moment its fence is settled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loses<'a> {
    /// Nothing.
    Nothing,
    /// Its leases on these inodes, which go to the session that claims one of them.
    Lease(Claim<'a>, &'a [InodeNumber]),
    /// Its leases on these inodes, which nobody else asked for.
    Leases(&'a [InodeNumber]),
    /// What it was promised and has not used, and what its digests freed and it has not let go of.
    Space,
}

impl SharedFs {
    /// Fences a session for the sake of another's request, and revokes its lease on the inode (DESIGN §8).
    ///
    /// From the moment the generation is published, no operation of the session returns without asking; so
    /// what the scan behind it does not find was never acknowledged, and the new log generation voids it for
    /// good before anybody else gets the lease.
    ///
    /// Answers what the claim was granted in the moment the fence was settled. `None`: it is to be asked for again.
    pub(crate) fn fence(&self, session: SessionId, claim: Claim<'_>) -> Result<Option<LeaseMode>, Error> {
        let inode = claim.inode;
        let mut taken = self.core.lock().leases.goes_along(session, claim.by, self.opened.elapsed());
        taken.retain(|&along| along != inode);
        taken.push(inode);
        let _wanted = self.await_names(session, &taken);
        // It stands still while a digest that is going on comes to its end. Others who have the digester may keep it for long.
        let is_stopped =
            self.digests.load(Ordering::Relaxed) && self.stop_holder(session, inode) == Some(true);
        let mut digester = self.digester.lock();
        if self.core.lock().leases.held(session, inode).is_none() {
            // Somebody else wanted it, too, and had it fenced: once more would only say that it held it until now. Or it was
            // given back, and whom this stopped is not to stand still for that.
            return match is_stopped.then(|| self.settle_fence(&mut digester, session, Loses::Nothing)) {
                // Its own question settles it when there is room.
                None | Some(Err(Error::NoSpace)) => Ok(None),
                Some(settled) => settled,
            };
        }
        // It may have gone on meanwhile, by its own question.
        if self.stop_holder(session, inode).is_none() {
            // Whatever it left in the table of leases, nobody waits for it.
            self.core.lock().leases.end_session(session);
            return Ok(None);
        }
        let granted = self.settle_fence(&mut digester, session, Loses::Lease(claim, &taken))?;
        self.note_fence(session);
        Ok(granted)
    }

    /// Fences a session so that it lets go of the blocks its digests freed, and takes back what it was promised and has
    /// not used. Its readers look at the generation once more after they have copied, and then it forgets where what it
    /// changed lies; its writers find their credit gone, and ask.
    pub(crate) fn take_back_space(&self, session: SessionId) -> Result<(), Error> {
        let mut digester = self.digester.lock();
        if !self.move_generation(session) {
            return Ok(());
        }
        self.settle_fence(&mut digester, session, Loses::Space)?;
        self.note_fence(session);
        Ok(())
    }

    /// Fences a session that has leases on inodes without having them open, as far as can be seen, and takes those. If it opens one
    /// meanwhile it either says so before the fence, or sees that behind it and asks again.
    pub(crate) fn take_closed(
        &self,
        digester: &mut Digester,
        session: SessionId,
        inodes: &[InodeNumber],
    ) -> Result<(), Error> {
        if !self.move_generation(session) {
            return Ok(());
        }
        self.settle_fence(digester, session, Loses::Leases(inodes))?;
        self.note_fence(session);
        Ok(())
    }

    /// Fences all sessions and takes all their leases; until [`SharedFs::let_go_on`] none does anything more, and no other
    /// may begin: for what changes inodes that anybody may have cached.
    pub(crate) fn halt_all(&self, digester: &mut Digester) -> Result<(), Error> {
        let sessions: Vec<SessionId> = self.core.lock().sessions.keys().copied().collect();
        // All of them first, so that they wait at the same time.
        for &session in &sessions {
            self.move_generation(session);
        }
        for session in sessions {
            if self.digest_all(digester, session, Until::Break)?.rejected {
                self.end(digester, session, Ending::GivenUp)?;
                continue;
            }
            self.quotas.lock().forget(session);
            let mut core = self.core.lock();
            let Core { sessions, table, leases, .. } = &mut *core;
            let Some(found) = sessions.get_mut(&session) else { continue };
            // What comes behind is void; and only the next move is one that it is told of.
            renew_log(found, table)?;
            found.move_generation();
            found.revoked_all = true;
            found.untold.clear();
            found.lingering.clear();
            let is_mounted = found.kernel.is_some();
            leases.revoke_all(session);
            if is_mounted {
                self.begin_doubt();
            }
        }
        Ok(())
    }

    /// Sessions that were halted go on. One for which that fails goes on by its own question.
    pub(crate) fn let_go_on(&self, digester: &mut Digester) -> Result<(), Error> {
        let sessions: Vec<SessionId> = self.core.lock().sessions.keys().copied().collect();
        let mut outcome = Ok(());
        for session in sessions {
            outcome = outcome.and(self.settle_halt(digester, session));
            self.note_fence(session);
        }
        outcome
    }

    fn settle_halt(&self, digester: &mut Digester, session: SessionId) -> Result<(), Error> {
        {
            let mut core = self.core.lock();
            let Core { sessions, table, .. } = &mut *core;
            let is_halted = |found: &&mut Session| found.revoked_all && found.is_unsettled();
            if let Some(found) = sessions.get_mut(&session).filter(is_halted) {
                // It was digested when it was halted, and nothing it appended since counts.
                return renew_log(found, table);
            }
        }
        self.settle_fence(digester, session, Loses::Nothing).map(drop)
    }

    /// From now on no operation of the session returns without asking. Says whether there is such a session.
    fn move_generation(&self, session: SessionId) -> bool {
        let mut core = self.core.lock();
        core.sessions.get_mut(&session).map(Session::move_generation).is_some()
    }

    /// As [`SharedFs::move_generation`], if the session has a lease on the inode and was not stopped already: whether it was
    /// now. `None`: there is no such session.
    fn stop_holder(&self, session: SessionId, inode: InodeNumber) -> Option<bool> {
        let mut core = self.core.lock();
        let Core { sessions, leases, .. } = &mut *core;
        let found = sessions.get_mut(&session)?;
        let is_to_stop = leases.held(session, inode).is_some() && !found.is_unsettled();
        if is_to_stop {
            found.move_generation();
        }
        Some(is_to_stop)
    }

    fn note_fence(&self, session: SessionId) {
        let step = {
            let core = self.core.lock();
            let Some(found) = core.sessions.get(&session) else { return };
            Step::Fence { session, accepted: found.record.start, generation: found.record.log_generation }
        };
        self.counters.fences.fetch_add(1, Ordering::Relaxed);
        self.events.record(step);
    }

    /// Takes what a session's log holds, once its generation was moved, and voids the rest; what it loses goes in the same
    /// moment, so that whoever sees the fence settled sees that, too. A fence that
    /// failed before it got there is finished by the session's own question, which must not be answered with an older
    /// log's end. Answers what was granted of a claim.
    pub(crate) fn settle_fence(
        &self,
        digester: &mut Digester,
        session: SessionId,
        loses: Loses<'_>,
    ) -> Result<Option<LeaseMode>, Error> {
        if !self.core.lock().sessions.get(&session).is_some_and(Session::is_unsettled) {
            return Ok(None);
        }
        if !planted::active(Bug::LostUpdate) && self.digest_all(digester, session, Until::Break)?.rejected {
            return self.end(digester, session, Ending::GivenUp).map(|()| None);
        }
        // With the log digested, what the session made is in the metadata store: of its other numbers there is no inode.
        // Where what is near cannot be read nothing is given up along.
        let (taken, near) = match loses {
            Loses::Lease(claim, taken) => {
                // Until the claim is granted no other session changes a directory: this version is the one the fenced session knows.
                let version = |inode| self.is_directory(inode).then(|| self.catching_up.follow(inode));
                let taken: Vec<_> = taken.iter().map(|&inode| (inode, version(inode))).collect();
                (taken, claim.ahead.given_up_along(self).unwrap_or_default())
            }
            Loses::Leases(inodes) => (Vec::new(), inodes.to_vec()),
            Loses::Nothing | Loses::Space => (Vec::new(), Vec::new()),
        };
        self.quotas.lock().forget(session);
        if !taken.is_empty() || !near.is_empty() {
            self.doubt_in_kernel(session, taken.iter().map(|&(inode, _)| inode).chain(near.iter().copied()));
        }
        let mut core = self.core.lock();
        let Core { sessions, table, leases, .. } = &mut *core;
        let Some(found) = sessions.get_mut(&session) else { return Ok(None) };
        renew_log(found, table)?;
        for &(inode, version) in &taken {
            if leases.held(session, inode).is_none() {
                continue;
            }
            let now = self.opened.elapsed();
            if found.looked_at.remove(&inode) == Some(self.catching_up.last_change(inode)) {
                leases.only_looked(session, inode);
            }
            if found.untold.remove(&inode) {
                leases.revoke_unasked(session, inode, now);
            } else {
                match version {
                    Some(_) => leases.revoke_directory(session, inode, now),
                    None => leases.revoke(session, inode, now),
                }
                if let Some(begun) = found.turns.remove(&inode) {
                    leases.note_turn(inode, now, found.control.operations().saturating_sub(begun));
                }
                // What it lost before and was not told of yet, it has had as it was since then.
                found.revoked.entry(inode).or_insert(version);
            }
        }
        take_along(found, leases, near.into_iter());
        if let Loses::Space = loses {
            let promised = found.promised();
            found.credit_limit = found.debited;
            found.control.publish_credit(found.credit_limit);
            let mut space = self.space.lock();
            space.allocator.retired(session, found.digested);
            space.credits.settle(promised);
        }
        Ok(match loses {
            Loses::Lease(claim, _) => hand_over(sessions, leases, claim, self.opened.elapsed()),
            Loses::Nothing | Loses::Leases(_) | Loses::Space => None,
        })
    }

    /// Whether it is one that can be read.
    pub(crate) fn is_directory(&self, inode: InodeNumber) -> bool {
        let stored = self.metadata.read().and_then(|snapshot| snapshot.inode(inode));
        matches!(stored, Ok(Some(stored)) if stored.record.kind() == FileKind::Directory)
    }

    /// Ends a session: what its log holds is digested, everything it had is given back. On a full medium that is done
    /// later, and [`Error::NoSpace`] only says so.
    pub fn end_session(&self, session: SessionId, ending: Ending) -> Result<(), Error> {
        if self.is_left() {
            return Err(MetadataError::Left.into());
        }
        self.abandon_mount(session);
        let ended = self.try_end(session, ending);
        if let Err(Error::NoSpace) = ended {
            self.end_later(session, ending);
        }
        ended
    }

    /// The medium is too full for the session to end now.
    pub(crate) fn end_later(&self, session: SessionId, ending: Ending) {
        if let Some(found) = self.core.lock().sessions.get_mut(&session) {
            found.ending = Some(ending);
        }
    }

    /// The process of a session that was awaited has ended. Says whether it was one; it ends with
    /// [`SharedFs::end_the_rest`].
    pub(crate) fn end_awaited(&self, session: SessionId) -> bool {
        let mut core = self.core.lock();
        let is_away = |found: &&mut Session| matches!(found.presence, Presence::Away(_));
        let Some(found) = core.sessions.get_mut(&session).filter(is_away) else { return false };
        found.ending = Some(Ending::Gone);
        true
    }

    /// Whether there are sessions that could not end when they should.
    pub(crate) fn has_rest(&self) -> bool {
        self.core.lock().sessions.values().any(|found| found.ending.is_some())
    }

    /// Ends the sessions that could not end when they should. Says whether there was one. Where there is no room for one there
    /// may be for another, or what that gives back.
    pub(crate) fn end_the_rest(&self) -> Result<bool, Error> {
        let waiting = |found: &Session| found.ending.map(|ending| (found.id, ending));
        let rest: Vec<_> = self.core.lock().sessions.values().filter_map(waiting).collect();
        let (mut any, mut full) = (false, Ok(()));
        for (session, ending) in rest {
            match self.end_session(session, ending) {
                Err(Error::NoSpace) => full = Err(Error::NoSpace),
                ended => {
                    ended?;
                    any = true;
                }
            }
        }
        if any { Ok(true) } else { full.map(|()| false) }
    }

    /// The daemon leaves, its process goes on: what its log holds is digested, what comes after that is void, and the next
    /// daemon finds it in the table.
    pub(crate) fn suspend(&self, session: SessionId) -> Result<(), Error> {
        let mut digester = self.digester.lock();
        self.shut_out(session);
        if self.digest_all(&mut digester, session, Until::Break)?.rejected {
            return self.end(&mut digester, session, Ending::GivenUp);
        }
        let mut core = self.core.lock();
        let Core { sessions, table, .. } = &mut *core;
        sessions.get_mut(&session).map_or(Ok(()), |found| renew_log(found, table))
    }

    fn try_end(&self, session: SessionId, ending: Ending) -> Result<(), Error> {
        let mut digester = self.digester.lock();
        if self.is_left() {
            return Err(MetadataError::Left.into());
        }
        // First: what it appends behind the end of the digest must not seem to have happened.
        self.shut_out(session);
        let rejected = !planted::active(Bug::EndedUndigested)
            && self.digest_all(&mut digester, session, Until::Break)?.rejected;
        self.end(&mut digester, session, if rejected { Ending::GivenUp } else { ending })
    }

    /// Ends a session whose log was digested as far as it will be.
    ///
    /// Segments that a living process may still write to must never look spare, whatever crashes in between: the slot
    /// says first that the log counts no more, then they go, then the slot.
    pub(crate) fn end(
        &self,
        digester: &mut Digester,
        session: SessionId,
        ending: Ending,
    ) -> Result<(), Error> {
        self.shut_out(session);
        self.quotas.lock().forget(session);
        self.release_orphans(digester, session)?;
        let gone = match ending {
            Ending::Gone => true,
            Ending::GivenUp => self.destroy_log(session)?,
        };
        let mut core = self.core.lock();
        let Some(slot) = core.sessions.get(&session).map(|found| found.slot) else { return Ok(()) };
        if gone {
            core.table.release(slot)?;
        }
        let Some(ended) = core.sessions.remove(&session) else { return Ok(()) };
        if ended.kernel.is_some() {
            self.begin_doubt();
        }
        self.forget_mounts(&core.sessions);
        self.references.note_new(ended.control.new_lock_files());
        // Only now may its row go: with the slot gone, nobody asks any more how far it was digested.
        digester.ended.push(session);
        core.leases.end_session(session);
        self.share_out_entries(&core.sessions);
        if ending == Ending::Gone {
            for segment in ended.segments.iter().chain(ended.commit_file.iter().map(|file| &file.segment)) {
                if let Err(error) = core.pool.give_back(segment) {
                    tracing::warn!(segment = segment.id.0, %error, "a log segment is lost until the next start");
                }
            }
        }
        let mut space = self.space.lock();
        space.allocator.end_session(session);
        space.credits.settle(ended.promised());
        drop(space);
        drop(core);
        self.counters.keep_unserved(&ended.control.unserved());
        self.events.record(Step::Detach { session, pid: ended.pid });
        match self.remove_closed(digester) {
            // What it had open is looked at again.
            Err(Error::NoSpace) => Ok(()),
            removed => removed.map(drop),
        }
    }

    /// Removes the segments of a session whose log counts no more. Says whether they are gone; those that are not are
    /// removed at the next start, which finds them in the slot.
    fn destroy_log(&self, session: SessionId) -> Result<bool, Error> {
        let segments = {
            let mut core = self.core.lock();
            let Core { sessions, table, .. } = &mut *core;
            let Some(found) = sessions.get_mut(&session) else { return Ok(true) };
            if found.record.all_segments().next().is_none() {
                return Ok(true);
            }
            found.record.ended = true;
            table.write(found.slot, &found.record)?;
            found.record.all_segments().collect::<Vec<_>>()
        };
        Ok(self.remove_segments(&segments))
    }

    /// Removes segments for good, durably. Says whether all are gone.
    pub(crate) fn remove_segments(&self, segments: &[SegmentId]) -> bool {
        let mut removed = Ok(());
        for &segment in segments {
            match self.parts.remove(&segment_path(segment)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    removed = Err(Error::io("remove a log segment")(error));
                }
                _ => {}
            }
        }
        let removed = removed.and_then(|()| sync_folder(&self.tier.join(LOGS_FOLDER)));
        if let Err(error) = &removed {
            tracing::warn!(%error, "a slot of the session table is lost until the next start");
        }
        removed.is_ok()
    }

    /// No operation of the session returns any more but with an error.
    fn shut_out(&self, session: SessionId) {
        if let Some(found) = self.core.lock().sessions.get_mut(&session) {
            found.move_generation();
            found.control.publish_closed();
        }
    }
}

/// Takes the leases it has on inodes from a session, which is told so.
fn take_along(session: &mut Session, leases: &mut Leases, inodes: impl Iterator<Item = InodeNumber>) {
    for inode in inodes {
        if leases.held(session.id, inode).is_some() {
            if !session.untold.remove(&inode) {
                session.revoked.entry(inode).or_insert(None);
            }
            leases.revoke_along(session.id, inode);
        }
    }
}

/// Grants the claim, and the contended directories that its session changes, under the lock that the fence is settled under. Otherwise
/// a third session that waits for one of these inodes could take it in between, and the two would each hold a part.
fn hand_over(
    sessions: &mut BTreeMap<SessionId, Session>,
    leases: &mut Leases,
    claim: Claim<'_>,
    now: Duration,
) -> Option<LeaseMode> {
    let found = sessions.get_mut(&claim.by)?;
    let outcome = leases.request(claim.by, claim.inode, claim.mode, now);
    found.untold.extend(leases.grant_along(claim.by, now));
    match outcome {
        Outcome::Granted(granted) => Some(granted),
        Outcome::Fence(_) | Outcome::Hold(_) | Outcome::Queue(_) | Outcome::Drain(..) => None,
    }
}

/// Starts a new generation of a log where its digest ended: whatever lies behind is void from now on.
pub(crate) fn renew_log(session: &mut Session, table: &mut SessionTable) -> Result<(), Error> {
    if !planted::active(Bug::ReusedSalt) {
        session.record.log_generation = LogGeneration(session.record.log_generation.0 + 1);
    }
    session.record.lease_generation = session.lease_generation;
    session.record.start = session.digested;
    table.write(session.slot, &session.record)
}
