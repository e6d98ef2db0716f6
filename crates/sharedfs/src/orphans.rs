//! Inodes without a name that somebody may have open: kept, and removed when nobody has.
//!
//! The digest of the end of a last name decides. An inode that the session itself had open is kept for it: its log says
//! when it was closed. One that somebody else has open is kept for nobody in particular, as is what a session leaves
//! behind, and nobody says when it is closed. So there is a look ([`SharedFs::look_for_closed`]) from time to time while
//! there are such inodes, and whenever somebody asks for space or how much there is.
//!
//! Whoever closed an inode may have written to it, and its log must be digested before the inode goes: an entry about an
//! inode that does not exist makes a log void. Only who has a lease on it can have such entries; and who has one may be about to
//! open the inode, so that it is fenced and loses the lease. Nor may anybody come to an inode while
//! it goes: where nobody has its lease, that is taken for nobody first, and whoever asks for one then waits until the
//! digester is free. So what is found open behind that stays, and what is not is opened by nobody any more.

use crate::digest::{Digester, Others};
use crate::leases::{LoggedChange, Outcome};
use crate::namespace::View;
use crate::sessions::{Openers, Presence};
use crate::{Error, SharedFs};
use cuesta_format::wire::LeaseMode;
use cuesta_format::{InodeNumber, SessionId};
use hashbrown::HashSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often it is looked whether inodes without a name were closed.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Leases looked up before others may come between.
const LOOKED_UP_AT_ONCE: usize = 1024;

impl Others for SharedFs {
    fn openers(&self, session: SessionId) -> Openers<'_> {
        let core = self.core.lock();
        let others = core.sessions.values().filter(|other| other.id != session);
        let (mut controls, mut unseen_below) = (Vec::new(), InodeNumber::NONE);
        for other in others {
            controls.push(Arc::clone(&other.control));
            unseen_below = unseen_below.max(match other.presence {
                Presence::Here => InodeNumber::NONE,
                Presence::Away(_) if other.record.away_below != InodeNumber::NONE => other.record.away_below,
                Presence::Away(_) | Presence::Returning => InodeNumber(u64::MAX),
            });
        }
        drop(core);
        Openers::look(&controls, unseen_below, &self.references)
    }

    fn have_lease(&self, inode: InodeNumber, session: SessionId) -> bool {
        self.core.lock().leases.involved(inode).any(|other| other != session)
    }

    fn make_durable(&self, batch: &View) -> Result<(), Error> {
        SharedFs::make_durable(self, batch.dependencies.iter())
    }

    fn add_foreign(
        &self,
        session: SessionId,
        changes: &mut dyn Iterator<Item = LoggedChange>,
        foreign: &mut HashSet<InodeNumber>,
    ) {
        loop {
            let mut some = changes.take(LOOKED_UP_AT_ONCE).peekable();
            if some.peek().is_none() {
                return;
            }
            self.core.lock().leases.add_foreign(session, some, foreign);
        }
    }
}

impl SharedFs {
    /// Takes note of how many inodes are to be looked after.
    pub(crate) fn note_orphans(&self, digester: &Digester) {
        self.watched_orphans.store(digester.orphans.watched() as u64, Ordering::Relaxed);
    }

    /// Whether there are inodes to be looked after.
    pub(crate) fn watches_orphans(&self) -> bool {
        self.watched_orphans.load(Ordering::Relaxed) > 0
    }

    /// Removes inodes without a name that nobody has open any more. Says whether there were any.
    pub(crate) fn look_for_closed(&self) -> Result<bool, Error> {
        Ok(self.watches_orphans() && self.remove_closed(&mut self.digester.lock())?)
    }

    /// The same, by who sees to it that no digest runs.
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
        // Somebody may have come to one meanwhile.
        let (gone, _) = self.withdraw(closed, SessionId::NOBODY);
        self.remove(digester, SessionId::NOBODY, &gone)?;
        Ok(!gone.is_empty())
    }

    /// Who has leases on inodes, or may have entries about them in its log; and on which it has one.
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

    /// Takes the leases on inodes for nobody, where nobody but `session`, whose log is digested, has one. Answers those that nobody
    /// has open or can open before the digester is free; and the others.
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

    /// Those that nobody has open.
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

    /// The session ends: what was kept for it goes, unless somebody else has it open or may have written to it.
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
