//! Fences: a session loses leases, or space it was promised, without being asked (docs/design/sharing.md).
//!
//! Every fence moves the session's generation first, digests its log, and takes leases under the lock that settles it.

use crate::digest::{Digester, Until};
use crate::leases::{Leases, Outcome};
use crate::requests::Ahead;
use crate::sessions::{Ending, Session};
use crate::store::Core;
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::wire::LeaseMode;
use cuesta_format::{FileKind, InodeNumber, SessionId};
use cuesta_media::planted::{self, Bug};
use parking_lot::MutexGuard;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A fence that waits for the digester looks so often whether that digests.
const DIGEST_LOOK: Duration = Duration::from_micros(200);

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

/// The loss of a session in the moment its fence is settled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loses<'a> {
    /// Nothing.
    Nothing,
    /// Its leases on these inodes, which go to the session that claims one of them.
    Lease(Claim<'a>, &'a [InodeNumber]),
    /// Its leases on these inodes, which no other session asked for.
    Leases(&'a [InodeNumber]),
    /// Blocks it was promised and has not used, and blocks its digests freed and it has not let go of.
    Space,
}

impl SharedFs {
    /// Fences a session for the sake of another's request, and revokes its lease on the inode (docs/design/sharing.md).
    ///
    /// From the moment the generation is published, no operation of the session returns without asking. So
    /// entries that the scan behind it does not find were never acknowledged. The new log generation voids them
    /// for good before another session gets the lease.
    ///
    /// Answers the mode that the claim was granted in the moment the fence was settled. `None`: ask again.
    pub(crate) fn fence(&self, session: SessionId, claim: Claim<'_>) -> Result<Option<LeaseMode>, Error> {
        let inode = claim.inode;
        let mut taken = self.core.lock().leases.goes_along(session, claim.by, self.opened.elapsed());
        taken.retain(|&along| along != inode);
        taken.push(inode);
        let _wanted = self.await_names(session, &taken);
        self.write_back_staged(session);
        let (mut digester, is_stopped) = self.stop_holder_and_take_digester(session, inode);
        if self.core.lock().leases.held(session, inode).is_none() {
            // Another session wanted it, too, and had it fenced: once more would only say that it held
            // it until now. Or it was given back, and the session this stopped is not to stand still for
            // that.
            return match is_stopped.then(|| self.settle_fence(&mut digester, session, Loses::Nothing)) {
                // Its own question settles it when there is room.
                None | Some(Err(Error::NoSpace)) => Ok(None),
                Some(settled) => settled,
            };
        }
        // It may have gone on meanwhile, by its own question.
        if self.stop_holder(session, inode).is_none() {
            // It may have left entries in the table of leases, but no session waits for it.
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

    /// From now on no operation of the session returns without asking. Says whether there is such a session.
    pub(super) fn move_generation(&self, session: SessionId) -> bool {
        let mut core = self.core.lock();
        core.sessions.get_mut(&session).map(Session::move_generation).is_some()
    }

    /// Waits for the digester. The session stands still from the moment that the digester is seen to digest. Otherwise the session would fill
    /// its log meanwhile, and the fence would have to digest that, too. Work other than a digest may keep the digester for long: the session
    /// goes on beside that. Also answers whether the session was stopped.
    fn stop_holder_and_take_digester(
        &self,
        session: SessionId,
        inode: InodeNumber,
    ) -> (MutexGuard<'_, Digester>, bool) {
        loop {
            if self.digests.load(Ordering::Relaxed) {
                let is_stopped = self.stop_holder(session, inode) == Some(true);
                return (self.digester.lock(), is_stopped);
            }
            if let Some(digester) = self.digester.try_lock_for(DIGEST_LOOK) {
                return (digester, false);
            }
        }
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

    pub(super) fn note_fence(&self, session: SessionId) {
        let step = {
            let core = self.core.lock();
            let Some(found) = core.sessions.get(&session) else { return };
            Step::Fence { session, accepted: found.record.start, generation: found.record.log_generation }
        };
        self.counters.fences.fetch_add(1, Ordering::Relaxed);
        self.events.record(step);
    }

    /// Digests a session's log, once its generation was moved, and voids the rest. It takes what the session
    /// loses in the same moment, so that a session that sees the fence settled sees that, too. A fence that
    /// failed before it got there is finished by the session's own question, which must not be answered with an
    /// older log's end. Answers the mode that a claim was granted.
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
        // With the log digested, every inode the session made is in the metadata store: of its other numbers
        // there is no inode. Where the inodes near cannot be read, none is given up along.
        let (taken, near) = match loses {
            Loses::Lease(claim, taken) => {
                // Until the claim is granted no other session changes a directory: this version is the one the fenced session knows.
                let version = |inode| self.is_directory(inode).then(|| self.directory_changes.follow(inode));
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
        found.renew_log(table)?;
        for &(inode, version) in &taken {
            if leases.held(session, inode).is_none() {
                continue;
            }
            let now = self.opened.elapsed();
            if let Some(seen) = found.looked_at.remove(&inode) {
                leases.looked(session, inode, self.directory_changes.last_change(inode) != seen);
            }
            if found.untold.remove(&inode) {
                leases.revoke_unasked(session, inode, now);
            } else {
                match version {
                    Some(_) => leases.revoke_directory(session, inode, now),
                    None => leases.revoke(session, inode, now),
                }
                if let Some(turn) = found.turns.remove(&inode).filter(|turn| turn.is_taken) {
                    leases.note_turn(inode, now, found.control.operations().saturating_sub(turn.operations));
                }
                // If it lost the inode before and was not told of that yet, it knows the version of
                // then.
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
