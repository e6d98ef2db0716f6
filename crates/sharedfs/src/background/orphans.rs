//! Inodes without a name that a program may have open: they stay, and go once no program has them open.
//!
//! The digest that removes an inode's last name decides. If the session itself had the inode open, it is kept for that session: its log
//! says when it was closed. If another program has it open, it is kept for no session in particular, and no log says when it is
//! closed. The same holds for inodes that a session leaves behind. So the daemon looks ([`SharedFs::look_for_closed`]) from time to
//! time while there are such inodes, and when a session asks for space or for totals.
//!
//! The session that closed an inode may have written to it. Its log must be digested before the inode goes: an entry about an
//! inode that does not exist makes a log void. Only a session with a lease on the inode can have such entries. It may also be about to
//! open the inode, so it is fenced and loses the lease. No session may get the inode while it goes: the daemon takes the free lease
//! itself first, and a session that asks for it waits until the digester is free. So an inode that is open after that stays, and
//! one that is not is never opened again.

use crate::digest::{Digester, Others};
use crate::leases::Outcome;
use crate::{Error, SharedFs};
use cuesta_format::wire::LeaseMode;
use cuesta_format::{InodeNumber, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often it is looked whether inodes without a name were closed.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);
impl SharedFs {
    /// Takes note of how many inodes are to be looked after.
    pub(crate) fn note_orphans(&self, digester: &Digester) {
        self.watched_orphans.store(digester.orphans.watched() as u64, Ordering::Relaxed);
    }

    /// Whether there are inodes to be looked after.
    pub(crate) fn watches_orphans(&self) -> bool {
        self.watched_orphans.load(Ordering::Relaxed) > 0
    }

    /// Removes inodes without a name that no program has open any more. Says whether there were any.
    pub(crate) fn look_for_closed(&self) -> Result<bool, Error> {
        Ok(self.watches_orphans() && self.remove_closed(&mut self.digester.lock())?)
    }

    /// The same, with the digester at hand, so that no digest runs.
    pub(crate) fn remove_closed(&self, digester: &mut Digester) -> Result<bool, Error> {
        if self.storage().recovering || digester.orphans.watched() == 0 {
            return Ok(false);
        }
        let closed = self.closed(digester.orphans.of(SessionId::NOBODY));
        if closed.is_empty() {
            return Ok(false);
        }
        for (session, held) in self.involved(&closed) {
            if held.is_empty() {
                self.digest_what_is_completed(digester, session)?;
            } else {
                self.take_closed(digester, session, &held)?;
            }
        }
        // A session may have come to one meanwhile.
        let (gone, _) = self.withdraw(closed, SessionId::NOBODY);
        self.remove(digester, SessionId::NOBODY, &gone)?;
        Ok(!gone.is_empty())
    }

    /// Sessions that have leases on inodes, or may have entries about them in their logs; and the inodes each
    /// has a lease on.
    fn involved(&self, inodes: &[InodeNumber]) -> BTreeMap<SessionId, Vec<InodeNumber>> {
        let core = self.core.lock();
        let mut involved: BTreeMap<SessionId, Vec<InodeNumber>> = BTreeMap::new();
        for &inode in inodes {
            for session in core.leases.involved(inode) {
                let held = involved.entry(session).or_default();
                held.extend(core.leases.held(session, inode).map(|_| inode));
            }
        }
        involved
    }

    /// Takes the leases on inodes for no session, where no other session than `session` has one. The log of
    /// `session` is digested. Answers those that no program has open or can open before the digester is free;
    /// and the others.
    fn withdraw(&self, inodes: Vec<InodeNumber>, session: SessionId) -> (Vec<InodeNumber>, Vec<InodeNumber>) {
        let now = self.opened.elapsed();
        let mut core = self.core.lock();
        let (taken, mut left): (Vec<_>, Vec<_>) = inodes.into_iter().partition(|&inode| {
            core.leases.revoke_along(session, inode);
            let outcome = core.leases.request(SessionId::NOBODY, inode, LeaseMode::Write, now);
            matches!(outcome, Outcome::Granted(_))
        });
        drop(core);
        let openers = self.openers(session);
        let (open, gone): (Vec<_>, Vec<_>) = taken.into_iter().partition(|&inode| openers.have(inode));
        drop(openers);
        let mut core = self.core.lock();
        open.iter().for_each(|&inode| core.leases.revoke_along(SessionId::NOBODY, inode));
        left.extend(open);
        (gone, left)
    }

    /// Those that no program has open.
    fn closed(&self, mut inodes: Vec<InodeNumber>) -> Vec<InodeNumber> {
        let openers = self.openers(SessionId::NOBODY);
        inodes.retain(|&inode| !openers.have(inode));
        inodes
    }

    fn remove(
        &self,
        digester: &mut Digester,
        holder: SessionId,
        inodes: &[InodeNumber],
    ) -> Result<(), Error> {
        // Others may have been removed with a session that ended meanwhile.
        let still = |inode: &InodeNumber| digester.orphans.holder(*inode) == Some(holder);
        let (gone, before): (Vec<_>, Vec<_>) = inodes.iter().partition(|inode| still(inode));
        if !gone.is_empty() {
            digester.remove_orphans(&self.storage(), holder, &gone)?;
        }
        self.note_orphans(digester);
        let mut core = self.core.lock();
        gone.iter().for_each(|&inode| core.leases.forget(inode));
        before.iter().for_each(|&inode| core.leases.revoke_along(SessionId::NOBODY, inode));
        Ok(())
    }

    /// The session ends: inodes kept for it go, unless another program has them open or may have written to
    /// them.
    pub(crate) fn release_orphans(&self, digester: &mut Digester, session: SessionId) -> Result<(), Error> {
        let kept = digester.orphans.of(session);
        if kept.is_empty() {
            return Ok(());
        }
        let openers = self.openers(session);
        let recovering = self.storage().recovering;
        let stays =
            |&inode: &InodeNumber| recovering || openers.have(inode) || self.have_lease(inode, session);
        let (mut left, closed): (Vec<_>, Vec<_>) = kept.into_iter().partition(stays);
        let (gone, opened) = self.withdraw(closed, session);
        left.extend(opened);
        if !left.is_empty() {
            digester.leave_orphans(&self.storage(), session, &left)?;
        }
        self.remove(digester, session, &gone)
    }

    /// All logs are recovered: what no living process has open goes, as far as that can be seen before all have come back.
    pub(crate) fn forget_orphans(&self, digester: &mut Digester) -> Result<(), Error> {
        let holders: BTreeSet<SessionId> = digester.orphans.all().map(|(_, holder)| holder).collect();
        for holder in holders {
            if self.core.lock().sessions.contains_key(&holder) {
                continue;
            }
            let kept = digester.orphans.of(holder);
            let closed = self.closed(kept.clone());
            self.remove(digester, holder, &closed)?;
            let left: Vec<_> = kept.into_iter().filter(|inode| !closed.contains(inode)).collect();
            if holder != SessionId::NOBODY && !left.is_empty() {
                digester.leave_orphans(&self.storage(), holder, &left)?;
            }
        }
        self.note_orphans(digester);
        Ok(())
    }
}
