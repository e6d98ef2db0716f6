//! The state machine: which session has which inode, and the outcome of each request. The room's map says the
//! rules.

use super::blocks::Blocks;
use super::contention::Contention;
use super::lease::Lease;
use super::lost_numbers::LostNumbers;
use super::outcome::Outcome;
use super::shipping::Shipping;
use crate::leases::blocks;
use crate::store::Ship;
use cuesta_format::wire::LeaseMode;
use cuesta_format::{InodeNumber, LogPosition, SessionId};
use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(super) struct GrantedNumbers {
    pub(super) count: u64,
    pub(super) session: SessionId,
}

/// A session behind another one in the queue asks again after so long.
const QUEUE_PAUSE: Duration = Duration::from_micros(150);

/// The first session in the queue loses its place if it does not take the inode for so long: its thread may get no processor.
const FIRST_IN_QUEUE_MAX: Duration = Duration::from_millis(10);

/// A table that was large is made smaller when it holds next to nothing any more. A session that makes files
/// without a pause and gives them back lets them linger by the hundred thousand, but for a moment only.
fn is_sparse(entries: usize, capacity: usize) -> bool {
    const KEPT: usize = 4096;
    capacity > KEPT && entries < capacity / 8
}

/// The table of leases.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    pub(super) entries: HashMap<InodeNumber, Lease>,
    /// Inodes each session has an entry for. No entry is vacant.
    pub(super) of_session: HashMap<SessionId, HashSet<InodeNumber>>,
    pub(super) ranges: BTreeMap<u64, GrantedNumbers>,
    /// Inodes of these that their session has no more, where there is no entry.
    pub(super) lost: LostNumbers,
    /// Leases granted ahead, where there is no entry.
    pub(super) blocks: Blocks,
    pub(super) contention: Contention,
    shipping: Shipping,
}

impl Leases {
    /// No leases; a contended one is kept for `hold` before it changes hands again.
    #[must_use]
    pub fn new(hold: Duration) -> Leases {
        Leases { contention: Contention::new(hold), ..Leases::default() }
    }

    /// The same, with some files on which SharedFS performs the operations itself.
    #[must_use]
    pub fn shipping(self, which: Ship) -> Leases {
        Leases { shipping: Shipping::new(which), ..self }
    }

    /// Inode numbers granted to a session: inodes it creates with them are its own.
    pub fn grant_numbers(&mut self, session: SessionId, first: InodeNumber, count: u32) {
        let count = u64::from(count);
        // A session that asks again before others do has one range, however often that is.
        match self.ranges.range_mut(..first.0).next_back() {
            Some((&before, range)) if range.session == session && before + range.count == first.0 => {
                range.count += count;
            }
            _ => drop(self.ranges.insert(first.0, GrantedNumbers { count, session })),
        }
    }

    /// The session the inode's number was granted to, while that session lives.
    #[must_use]
    pub fn owner_of_number(&self, inode: InodeNumber) -> Option<SessionId> {
        let (&first, range) = self.ranges.range(..=inode.0).next_back()?;
        (inode.0 - first < range.count).then_some(range.session)
    }

    /// The session that writes an inode without an entry.
    pub(super) fn writer_without_entry(&self, inode: InodeNumber) -> Option<SessionId> {
        self.blocks.holder(inode).or_else(|| self.maker_without_entry(inode))
    }

    /// The session that may have made an inode without an entry, with a number of its own, and has it still.
    pub(super) fn maker_without_entry(&self, inode: InodeNumber) -> Option<SessionId> {
        self.owner_of_number(inode).filter(|_| !self.lost.contains(inode))
    }

    pub(super) fn lease(&self, inode: InodeNumber) -> Lease {
        self.entries
            .get(&inode)
            .cloned()
            .unwrap_or_else(|| Lease { writer: self.writer_without_entry(inode), ..Lease::default() })
    }

    /// Changes what `session` alone has of the inode.
    fn change<R>(
        &mut self,
        session: SessionId,
        inode: InodeNumber,
        change: impl FnOnce(&mut Lease) -> R,
    ) -> R {
        let maker = self.maker_without_entry(inode);
        let mut entry = match self.entries.entry(inode) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(place) => {
                let writer = self.blocks.take(inode).or(maker);
                if let Some(writer) = writer {
                    self.of_session.entry(writer).or_default().insert(inode);
                }
                place.insert_entry(Lease { writer, ..Lease::default() })
            }
        };
        let lease = entry.get_mut();
        let result = change(lease);
        let involved = lease.involves(session);
        if lease.is_vacant() {
            entry.remove();
            self.note_lost(inode);
            if is_sparse(self.entries.len(), self.entries.capacity()) {
                self.entries.shrink_to_fit();
            }
        }
        if involved {
            self.of_session.entry(session).or_default().insert(inode);
        } else if let Some(inodes) = self.of_session.get_mut(&session)
            && inodes.remove(&inode)
            && is_sparse(inodes.len(), inodes.capacity())
        {
            inodes.shrink_to_fit();
        }
        result
    }

    /// An entry is gone. If the inode's number was granted to a session, that session does not get the inode
    /// back by this.
    fn note_lost(&mut self, inode: InodeNumber) {
        if self.maker_without_entry(inode).is_some() {
            self.lost.insert(inode);
        }
    }

    /// A session asks for a lease at `now`. `mode` is the one it needs. It gets Write where no other session is
    /// interested, so that it does not have to ask again.
    pub fn request(
        &mut self,
        session: SessionId,
        inode: InodeNumber,
        mode: LeaseMode,
        now: Duration,
    ) -> Outcome {
        let lease = self.lease(inode);
        if let Some(&(other, until)) = lease.lingering.first() {
            return Outcome::Drain(other, until);
        }
        if lease.writer == Some(session) {
            self.contention.stop_waiting(session);
            return Outcome::Granted(LeaseMode::Write);
        }
        let is_contended = self.contention.is_remembered(inode, now);
        let is_directory = is_contended && self.contention.is_directory(inode);
        if is_directory && mode == LeaseMode::Write && lease.readers.contains(&session) {
            self.contention.note_look(session, inode);
        }
        let others: Vec<SessionId> = match mode {
            LeaseMode::Read => lease.writer.into_iter().collect(),
            LeaseMode::Write => lease.holders().filter(|&other| other != session).collect(),
        };
        if !others.is_empty() {
            let left = self.contention.held_for(inode, now);
            let is_anothers = is_contended && self.is_anothers_turn(session, inode, &others, now);
            let is_early = left.is_some() || is_anothers;
            if is_early && is_contended {
                self.contention.wait(session, inode);
            }
            return match left {
                Some(left) => Outcome::Hold(left),
                None if is_early => Outcome::Queue(QUEUE_PAUSE),
                None => Outcome::Fence(others),
            };
        }
        self.contention.stop_waiting(session);
        let alone = lease.readers.iter().all(|&reader| reader == session);
        let contended = self.contention.is_remembered(inode, now);
        // A session that joins the readers does not make a writer wait any longer.
        if contended && alone {
            self.contention.hold(inode, now);
        }
        Outcome::Granted(self.change(session, inode, |lease| {
            if alone && (mode == LeaseMode::Write || !contended) {
                lease.readers.clear();
                lease.writer = Some(session);
                return LeaseMode::Write;
            }
            if !lease.readers.contains(&session) {
                lease.readers.push(session);
            }
            LeaseMode::Read
        }))
    }

    /// Whether another session has waited longer than this one for the inode, and is still expected to take it. Directories change hands
    /// together: there, anything counts that these holders have.
    fn is_anothers_turn(
        &self,
        session: SessionId,
        inode: InodeNumber,
        holders: &[SessionId],
        now: Duration,
    ) -> bool {
        let is_directory = self.contention.is_directory(inode);
        let is_held = |wanted| match is_directory {
            true => self.lease(wanted).holders().any(|holder| holders.contains(&holder)),
            false => wanted == inode,
        };
        self.contention.free_for(inode, now) < FIRST_IN_QUEUE_MAX
            && self.contention.wanted_before(session).any(is_held)
    }

    /// Whether the inode is contended, and the session reads it and then changes it.
    #[must_use]
    pub fn changes_after_look(&self, session: SessionId, inode: InodeNumber, now: Duration) -> bool {
        self.contention.is_remembered(inode, now) && self.contention.looks_first(session, inode)
    }

    /// The session stays, as a mount does: turns of other sessions do not tell its next one.
    pub fn note_staying(&mut self, session: SessionId) {
        self.contention.note_staying(session);
    }

    /// The session was granted the inode for writing as it asked to look at it, and has had its turn. Whether it changed the inode.
    pub fn looked(&mut self, session: SessionId, inode: InodeNumber, is_changed: bool) {
        match is_changed {
            true => self.contention.note_look(session, inode),
            false => self.contention.note_only_looked(session, inode),
        }
    }

    /// The session's question failed: it leaves the queue.
    pub fn stop_waiting(&mut self, session: SessionId) {
        self.contention.stop_waiting(session);
    }

    /// Leases the session did not ask for, but will want, on `wanted`, near ones behind each other. It is as
    /// [`Leases::request`], but only where nothing has to happen first, no session contends for changing the
    /// inode, and the session does not hold it already. Adds to `granted` the leases it gets.
    pub fn request_ahead(
        &mut self,
        session: SessionId,
        wanted: &[InodeNumber],
        mode: LeaseMode,
        now: Duration,
        granted: &mut Vec<(InodeNumber, LeaseMode)>,
    ) {
        for run in wanted.chunk_by(|one, next| blocks::place(*one).0 == blocks::place(*next).0) {
            let block = blocks::place(run[0]).0;
            let held = self.blocks.held_in(block);
            let may_be_unborn = self.has_numbers_of_sessions(block);
            let mut free = 0;
            for &inode in run {
                let bit = blocks::place(inode).1;
                let contended = self.contention.is_remembered(inode, now);
                if (held | free) & bit != 0 || contended && mode == LeaseMode::Write {
                    continue;
                }
                let has_entry = self.entries.contains_key(&inode);
                if !has_entry && may_be_unborn && self.maker_without_entry(inode).is_some() {
                    continue;
                }
                if !has_entry && !contended {
                    free |= bit;
                    granted.push((inode, LeaseMode::Write));
                } else if self.held(session, inode).is_none()
                    && let Outcome::Granted(mode) = self.request(session, inode, mode, now)
                {
                    granted.push((inode, mode));
                }
            }
            self.blocks.grant_all(session, block, free);
        }
    }

    /// Whether numbers of the block were granted to sessions, for what they create.
    fn has_numbers_of_sessions(&self, block: u64) -> bool {
        let first = block * blocks::NUMBERS;
        let last = self.ranges.range(..first.saturating_add(blocks::NUMBERS)).next_back();
        last.is_some_and(|(start, range)| start.saturating_add(range.count) > first)
    }

    /// A lease to read, beside the readers there are: only where no session writes, or did so in a log that is
    /// not digested. The session must not hold one yet. Says whether it got the lease.
    pub fn join_readers(&mut self, session: SessionId, inode: InodeNumber) -> bool {
        let lease = self.lease(inode);
        if lease.writer.is_some() || !lease.lingering.is_empty() || lease.readers.contains(&session) {
            return false;
        }
        self.change(session, inode, |lease| lease.readers.push(session));
        true
    }

    /// The contended directories that move to the session `to` when it has `from` fenced: those that `from` holds for writing and `to` has
    /// lost.
    #[must_use]
    pub fn goes_along(&self, from: SessionId, to: SessionId, now: Duration) -> Vec<InodeNumber> {
        let lost = self.contention.lost_by(to, now);
        lost.filter(|&inode| self.held(from, inode) == Some(LeaseMode::Write)).collect()
    }

    /// Grants a session the contended directories that it lost and that no session holds now: it will ask for
    /// them next. Answers which.
    pub fn grant_along(&mut self, session: SessionId, now: Duration) -> Vec<InodeNumber> {
        let mut wanted: Vec<InodeNumber> = self.contention.lost_by(session, now).collect();
        wanted.retain(|&inode| {
            let is_free = self.lease(inode).is_vacant();
            is_free && matches!(self.request(session, inode, LeaseMode::Write, now), Outcome::Granted(_))
        });
        wanted
    }

    /// The session may keep the inode until then, and the contended directories it was granted along, though others want them.
    pub fn keep_all(&mut self, session: SessionId, inode: InodeNumber, now: Duration, until: Duration) {
        let along: Vec<InodeNumber> = self.contention.lost_by(session, now).collect();
        for inode in along.into_iter().chain([inode]) {
            if self.held(session, inode).is_some() {
                self.contention.hold_until(inode, until);
            }
        }
    }

    /// The session that has the inode may keep it until then.
    pub fn hold_until(&mut self, inode: InodeNumber, until: Duration) {
        self.contention.hold_until(inode, until);
    }

    /// The session that has the inode does nothing: it need not be kept any longer.
    pub fn release(&mut self, inode: InodeNumber, now: Duration) {
        self.contention.hold_until(inode, now);
    }

    /// Whether the inode was taken from a session not long ago.
    #[must_use]
    pub fn is_contended(&self, inode: InodeNumber, now: Duration) -> bool {
        self.contention.is_remembered(inode, now)
    }

    /// The session was fenced and digested, for the sake of an inode near this one: its lease on this one is gone, too.
    pub fn revoke_along(&mut self, session: SessionId, inode: InodeNumber) {
        if self.entries.contains_key(&inode) {
            self.change(session, inode, |lease| lease.remove(session));
        } else if self.blocks.holder(inode) == Some(session) {
            self.blocks.take(inode);
        } else if self.maker_without_entry(inode) == Some(session) {
            self.lost.insert(inode);
        }
    }

    /// As [`Leases::revoke`], for a directory that the session was granted along with another one and has not asked for.
    pub fn revoke_unasked(&mut self, session: SessionId, inode: InodeNumber, now: Duration) {
        self.contention.note(inode, now);
        self.contention.note_unasked(session, inode);
        self.change(session, inode, |lease| lease.remove(session));
    }

    /// The session was fenced at `now` for the sake of another one, and digested: its lease on the inode is gone.
    pub fn revoke(&mut self, session: SessionId, inode: InodeNumber, now: Duration) {
        self.contention.note(inode, now);
        self.change(session, inode, |lease| lease.remove(session));
    }

    /// The inode was revoked from a session that took it from others, and did so many operations since.
    pub fn note_turn(&mut self, inode: InodeNumber, now: Duration, operations: u64) {
        self.shipping.note_turn(inode, now, operations);
    }

    /// For how much longer SharedFS performs the operations on the inode itself, if it does ([`super::shipping`]). A session
    /// asks, `is_mount`: that of a mount.
    pub fn shipped_for(&mut self, inode: InodeNumber, now: Duration, is_mount: bool) -> Option<Duration> {
        if is_mount {
            self.shipping.share_with_mount(inode, now);
        }
        self.shipping.left(inode, now)
    }

    /// A session was granted a lease. Whether SharedFS performed the operations on the inode before, and its term is over.
    pub fn ends_term(&mut self, inode: InodeNumber, now: Duration) -> bool {
        self.shipping.ends_term(inode, now)
    }

    /// On how many inodes SharedFS performs the operations itself.
    #[must_use]
    pub fn shipped(&self, now: Duration) -> u64 {
        self.shipping.count(now)
    }

    /// As [`Leases::revoke`], for a directory.
    pub fn revoke_directory(&mut self, session: SessionId, directory: InodeNumber, now: Duration) {
        if self.held(session, directory) == Some(LeaseMode::Write) {
            self.contention.note_lost(session, directory);
        }
        self.revoke(session, directory, now);
        self.contention.note_directory(directory);
    }

    /// Whether the inode is a directory that sessions take turns with.
    #[must_use]
    pub fn is_contended_directory(&self, inode: InodeNumber) -> bool {
        self.contention.is_directory(inode)
    }

    /// The session was fenced, and its log digested to the end. All its leases are gone, but for those on
    /// inodes it made with its own numbers, if no other session asked for them.
    pub fn revoke_all(&mut self, session: SessionId) {
        self.blocks.end_session(session);
        for inode in self.of_session.remove(&session).unwrap_or_default() {
            self.change(session, inode, |lease| lease.remove(session));
        }
    }

    /// The session gave the inode back; its log may still change it up to `until`, if it held it for writing. Says
    /// whether that is to be waited for.
    pub fn give_back(&mut self, session: SessionId, inode: InodeNumber, until: Option<LogPosition>) -> bool {
        let Some(held) = self.held(session, inode) else { return false };
        if until.is_none() && self.blocks.take(inode).is_some() {
            return false;
        }
        let until = until.filter(|_| held == LeaseMode::Write);
        self.change(session, inode, |lease| {
            lease.remove(session);
            lease.lingering.extend(until.map(|until| (session, until)));
        });
        until.is_some()
    }

    /// The session's log was digested up to `digested`: what lingered up to there is free.
    pub fn digested(&mut self, session: SessionId, inode: InodeNumber, digested: LogPosition) {
        self.change(session, inode, |lease| {
            lease.lingering.retain(|&(other, until)| other != session || until > digested);
        });
    }

    /// The mode in which the session holds the inode.
    #[must_use]
    pub fn held(&self, session: SessionId, inode: InodeNumber) -> Option<LeaseMode> {
        let Some(lease) = self.entries.get(&inode) else {
            return (self.writer_without_entry(inode) == Some(session)).then_some(LeaseMode::Write);
        };
        if lease.writer == Some(session) {
            return Some(LeaseMode::Write);
        }
        lease.readers.contains(&session).then_some(LeaseMode::Read)
    }

    /// Every session that holds the inode.
    #[must_use]
    pub fn holders(&self, inode: InodeNumber) -> Vec<(SessionId, LeaseMode)> {
        let lease = self.lease(inode);
        let writer = lease.writer.iter().map(|&session| (session, LeaseMode::Write));
        writer.chain(lease.readers.iter().map(|&session| (session, LeaseMode::Read))).collect()
    }

    /// Every session that holds the inode, or may still change it by its log.
    pub fn involved(&self, inode: InodeNumber) -> impl Iterator<Item = SessionId> {
        let Lease { writer, readers, lingering } = self.lease(inode);
        let lingering = lingering.into_iter().map(|(session, _)| session);
        writer.into_iter().chain(readers).chain(lingering)
    }

    /// The inode is gone.
    pub fn forget(&mut self, inode: InodeNumber) {
        self.contention.end_inode(inode);
        self.shipping.forget(inode);
        let involved: Vec<SessionId> = self.involved(inode).collect();
        for session in involved {
            self.change(session, inode, |lease| lease.remove(session));
        }
    }

    /// How many inodes the session holds, its own new ones not counted.
    #[must_use]
    pub fn count(&self, session: SessionId) -> u64 {
        self.of_session.get(&session).map_or(0, |inodes| inodes.len() as u64) + self.blocks.count(session)
    }

    /// The session is gone, its log digested to the end.
    pub fn end_session(&mut self, session: SessionId) {
        let Leases { ranges, lost, contention, .. } = self;
        contention.end_session(session);
        ranges.retain(|&first, range| {
            if range.session == session {
                lost.forget(first..first.saturating_add(range.count));
            }
            range.session != session
        });
        self.blocks.end_session(session);
        for inode in self.of_session.remove(&session).unwrap_or_default() {
            let Some(mut lease) = self.entries.remove(&inode) else { continue };
            lease.remove(session);
            if lease.is_vacant() {
                self.note_lost(inode);
            } else {
                self.entries.insert(inode, lease);
            }
        }
    }
}
