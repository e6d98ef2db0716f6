//! Granting leases: what must happen first, and what a lease brings along.

use super::ahead::Ahead;
use super::holding::kept_for;
use crate::damage::unreadable;
use crate::digest::directory_changes;
use crate::leases::Outcome;
use crate::metadata::{ExtentList, MetadataError, ReadOnly, Snapshot};
use crate::requests::{Trouble, directory_entry, invalid};
use crate::sessions::lifecycle::Claim;
use crate::store::Core;
use crate::tiers::split_at_arenas;
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::operation::is_entry_name;
use cuesta_format::wire::{
    DOUBTFUL_MAX, DirectoryEntry, Grant, KeptNames, LeaseMode, Refusal, Response, Sends,
};
use cuesta_format::{Extent, FileKind, InodeNumber, LogPosition, SessionId};
use std::time::Duration;

/// Most names or extents that come with a grant.
const GRANT_ITEMS: usize = 1024;
/// Most bytes of extended attributes that come with a grant.
const GRANT_EXTENDED_BYTES: u32 = 512;

impl SharedFs {
    /// Grants a lease, after whatever must happen first. A session that is fenced for it gives up the inodes
    /// `ahead` as well, unless the inode changes hands all the time.
    pub(crate) fn lease(
        &self,
        session: SessionId,
        inode: InodeNumber,
        mode: LeaseMode,
        ahead: &Ahead,
    ) -> Result<LeaseMode, Trouble> {
        // A session that makes names looks at the directory first: to share it for that moment would be a
        // turn for nothing.
        let changes = self.core.lock().leases.changes_after_look(session, inode, self.opened.elapsed());
        let is_raised = mode == LeaseMode::Read && changes && self.is_directory(inode);
        let mode = if is_raised { LeaseMode::Write } else { mode };
        let granted = self.lease_in_turn(session, inode, mode, ahead);
        if is_raised
            && granted.is_ok()
            && let Some(found) = self.core.lock().sessions.get_mut(&session)
        {
            found.looked_at.insert(inode, self.directory_changes.last_change(inode));
        }
        if granted.is_err() {
            self.core.lock().leases.stop_waiting(session);
        }
        granted
    }

    fn lease_in_turn(
        &self,
        session: SessionId,
        inode: InodeNumber,
        mode: LeaseMode,
        ahead: &Ahead,
    ) -> Result<LeaseMode, Trouble> {
        let mut fenced = None;
        let mut is_taken = false;
        let mut handed_over = None;
        loop {
            let now = self.opened.elapsed();
            let mut core = self.core.lock();
            let doubt = self.doubt_left();
            if !doubt.is_zero() {
                drop(core);
                std::thread::sleep(doubt);
                continue;
            }
            if inode >= core.table.head().inode_limit {
                return Err(Trouble::Refused(Refusal::NotFound));
            }
            if let Some(owner) = core.leases.may_be_unborn(inode, session) {
                drop(core);
                self.check_born(owner, inode)?;
                core = self.core.lock();
            }
            let outcome = match handed_over.take() {
                Some(granted) => Outcome::Granted(granted),
                None => core.leases.request(session, inode, mode, now),
            };
            if let (Outcome::Granted(_), Some(since)) = (&outcome, fenced) {
                let least = Duration::from_micros(self.options.lease_hold_us);
                let is_directory = core.leases.is_contended_directory(inode);
                let until = now + kept_for(now - since, least, is_directory);
                core.leases.keep_all(session, inode, now, until);
            }
            let is_shared = is_taken || core.leases.is_contended_directory(inode);
            if let (Outcome::Granted(_), Some(found)) = (&outcome, core.sessions.get_mut(&session)) {
                found.untold.remove(&inode);
                if is_shared {
                    found.begin_turn(inode, now, is_taken);
                }
            }
            let along = if core.leases.is_contended(inode, now) { Ahead::none() } else { ahead.clone() };
            drop(core);
            match outcome {
                Outcome::Granted(granted) => {
                    let write = granted == LeaseMode::Write;
                    if write && is_taken {
                        self.poll_without_kick(session);
                    }
                    self.events.record(Step::Grant { session, inode, write });
                    return Ok(granted);
                }
                Outcome::Fence(others) if fenced.is_none() && self.keeps_until_begun(&others, inode) => {}
                Outcome::Fence(others) => {
                    self.check_medium()?;
                    fenced.get_or_insert(now);
                    is_taken = true;
                    for other in others {
                        handed_over = self.fence(other, Claim { by: session, inode, mode, ahead: &along })?;
                    }
                }
                Outcome::Hold(left) => {
                    // The cost of getting the inode counts from the moment it can be had.
                    fenced = None;
                    self.wait_for_holders(inode, left);
                }
                Outcome::Queue(pause) => std::thread::sleep(pause),
                Outcome::Drain(other, _) => self.drain(other, inode)?,
            }
        }
    }

    /// Refuses a request that needs the medium, once that has failed. No session is fenced any more: its log
    /// can be taken no more, and it would lose files it can read.
    pub(crate) fn check_medium(&self) -> Result<(), Error> {
        match self.metadata.read_only() {
            Some(ReadOnly::Failure) => Err(MetadataError::Failed.into()),
            Some(ReadOnly::Damage) | None => Ok(()),
        }
    }

    /// Refuses an inode whose maker has not made it. No session loses a number to one that only guessed it: an
    /// inode its owner makes of it later is the owner's, without a question.
    fn check_born(&self, owner: SessionId, inode: InodeNumber) -> Result<(), Trouble> {
        if self.metadata.read()?.inode(inode)?.is_none() {
            self.digest_completed(owner)?;
            if self.metadata.read()?.inode(inode)?.is_none() {
                return Err(Trouble::Refused(Refusal::NotFound));
            }
        }
        Ok(())
    }

    /// Digests the log of a session that gave the inode back. Entries it never completed are void: the inode is
    /// free, before another digest could begin that finds more.
    fn drain(&self, session: SessionId, inode: InodeNumber) -> Result<(), Error> {
        let mut digester = self.digester.lock();
        self.digest_what_is_completed(&mut digester, session)?;
        let mut core = self.core.lock();
        let Core { sessions, leases, .. } = &mut *core;
        if let Some(found) = sessions.get_mut(&session) {
            found.lingering.retain(|&(lingering, _)| lingering != inode);
            leases.digested(session, inode, LogPosition(u64::MAX));
        }
        Ok(())
    }

    pub(crate) fn acquire(
        &self,
        session: SessionId,
        inode: InodeNumber,
        mode: LeaseMode,
        ahead: Ahead,
        kept: Option<&KeptNames>,
        sends: Sends,
    ) -> Result<Response, Trouble> {
        if let Some(term_ms) = self.shipped_for(session, inode, sends) {
            self.events.record(Step::Ship { session, inode, term_ms });
            return Ok(Response::Shipped { term_ms });
        }
        let granted = self.lease(session, inode, mode, &ahead)?;
        if self.core.lock().leases.ends_term(inode, self.opened.elapsed()) {
            self.events.record(Step::Own { session, inode });
        }
        let mut grant = self.grant(session, inode, granted, kept)?;
        if grant.as_ref().is_some_and(|grant| grant.record.mapped) {
            self.end_mapped(inode)?;
            grant = self.grant(session, inode, granted, None)?;
        }
        let Some(grant) = grant else { return Err(self.not_found(session, inode)) };
        let ahead = self.grant_around(session, inode, mode, &ahead)?;
        Ok(Response::Granted { grant: Box::new(grant), ahead })
    }

    /// For how long the session is to send its operations on the inode. If it holds a lease, it uses that.
    fn shipped_for(&self, session: SessionId, inode: InodeNumber, sends: Sends) -> Option<u32> {
        if sends == Sends::Nothing {
            return None;
        }
        let left = {
            let mut core = self.core.lock();
            let is_mount = core.sessions.get(&session).is_some_and(|session| session.kernel.is_some());
            let is_held = core.leases.held(session, inode) == Some(LeaseMode::Write);
            core.leases.shipped_for(inode, self.opened.elapsed(), is_mount).filter(|_| !is_held)?
        };
        let is_sent = sends == Sends::Everything || self.is_directory(inode) == (sends == Sends::Names);
        is_sent.then(|| u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1))
    }

    /// Puts a file in mapped mode, for the session to map.
    pub(crate) fn map(&self, session: SessionId, inode: InodeNumber) -> Result<Response, Trouble> {
        let granted = self.lease(session, inode, LeaseMode::Write, &Ahead::none())?;
        self.digest_completed(session)?;
        if self.metadata.read()?.inode(inode)?.is_none() {
            return Err(self.not_found(session, inode));
        }
        self.begin_mapped(inode)?;
        let Some(grant) = self.grant(session, inode, granted, None)? else {
            return Err(self.not_found(session, inode));
        };
        Ok(Response::Granted { grant: Box::new(grant), ahead: Vec::new() })
    }

    /// There is no inode for the lease that was granted: nothing of it is kept. One the session may yet make stays its own.
    fn not_found(&self, session: SessionId, inode: InodeNumber) -> Trouble {
        let mut core = self.core.lock();
        if core.leases.owner_of_number(inode) != Some(session) {
            core.leases.give_back(session, inode, None);
        }
        Trouble::Refused(Refusal::NotFound)
    }

    pub(crate) fn lookup(
        &self,
        session: SessionId,
        parent: InodeNumber,
        name: &[u8],
    ) -> Result<Response, Trouble> {
        self.check_held(session, parent)?;
        if !is_entry_name(name) {
            return Err(invalid("no name a directory can hold"));
        }
        match self.metadata.read()?.lookup(parent, name)? {
            Some(found) => {
                self.acquire(session, found.inode, LeaseMode::Read, Ahead::none(), None, Sends::Nothing)
            }
            None => Err(Trouble::Refused(Refusal::NotFound)),
        }
    }

    /// The grant of a lease on an inode, with all that it brings along.
    fn grant(
        &self,
        session: SessionId,
        inode: InodeNumber,
        mode: LeaseMode,
        kept: Option<&KeptNames>,
    ) -> Result<Option<Grant>, Error> {
        let snapshot = self.metadata.read()?;
        let Some(stored) = snapshot.inode(inode)? else { return Ok(None) };
        let mut grant = Grant {
            record: stored.record,
            mode,
            extents: Vec::new(),
            extents_complete: true,
            target: Vec::new(),
            entries: Vec::new(),
            entries_complete: true,
            entries_changed: false,
            extended: match stored.record.extended {
                0 => Vec::new(),
                1..=GRANT_EXTENDED_BYTES => snapshot.extended(inode)?,
                _ => Vec::new(),
            },
            kept: stored.record.links == 0 && snapshot.is_kept(inode, session)?,
        };
        match stored.record.kind() {
            FileKind::File => {
                let extents = match stored.extents {
                    ExtentList::Inline(extents) => extents,
                    ExtentList::Table => snapshot.extents(inode, 0..u64::MAX)?,
                };
                if let Some(lost) = self.lost.size_of(inode) {
                    grant.record.size = stored.record.size.max(lost);
                    grant.extents = unreadable(&self.superblock.geometry, grant.record.size, 0);
                    return Ok(Some(grant));
                }
                (grant.extents, grant.extents_complete) = self.shown(extents, GRANT_ITEMS);
            }
            FileKind::Directory => {
                if let Some(kept) = kept
                    && let Some(changes) = self.changes_since(&snapshot, inode, kept)?
                {
                    (grant.entries, grant.entries_changed) = (changes, true);
                    return Ok(Some(grant));
                }
                let entries = snapshot.list(inode, b"", GRANT_ITEMS)?;
                grant.entries_complete = entries.len() < GRANT_ITEMS;
                grant.entries = entries.into_iter().map(directory_entry).collect();
            }
            FileKind::Symlink => grant.target = snapshot.symlink(inode)?.unwrap_or_default(),
            _ => {}
        }
        Ok(Some(grant))
    }

    /// The names that a session lacks which knows a version of a directory, if they are known.
    fn changes_since(
        &self,
        snapshot: &Snapshot,
        directory: InodeNumber,
        kept: &KeptNames,
    ) -> Result<Option<Vec<DirectoryEntry>>, Error> {
        let Some(mut changes) = self.directory_changes.since(directory, kept.version) else {
            return Ok(None);
        };
        let doubtful = kept.doubtful.iter().filter(|name| is_entry_name(name));
        for name in doubtful.take(DOUBTFUL_MAX) {
            changes.push(directory_changes::entry(name, snapshot.lookup(directory, name)?));
        }
        Ok(Some(changes))
    }

    /// Extents as a session reads them: at most `most`, each in one arena, and where a copy is in the place of a home. Says whether these are all.
    pub(crate) fn shown(&self, extents: Vec<Extent>, most: usize) -> (Vec<Extent>, bool) {
        let is_all = extents.len() <= most;
        let mut shown = self.split(extents.into_iter().take(most));
        if !self.migration.may_have_copies() {
            return (shown, is_all);
        }
        let space = self.space.lock();
        let copied = shown.iter().flat_map(|extent| space.allocator.copies().shown(extent));
        shown = copied.collect();
        let is_all = is_all && shown.len() <= most;
        shown.truncate(most);
        (shown, is_all)
    }

    pub(crate) fn split(&self, extents: impl Iterator<Item = Extent>) -> Vec<Extent> {
        extents.flat_map(|extent| split_at_arenas(&self.superblock.geometry, &extent)).collect()
    }
}
