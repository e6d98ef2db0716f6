//! Which inodes several sessions want, and which sessions change them: remembered for a while after the last fence.

use cuesta_format::{InodeNumber, SessionId};
use hashbrown::{HashMap, HashSet};
use std::collections::VecDeque;
use std::time::Duration;

/// So long after the last fence an inode counts as contended. All it costs a session that comes later is one more
/// question; forgetting too early costs a fence.
const MEMORY: Duration = Duration::from_secs(10);
/// More inodes are not remembered: when there are as many, those whose time is over are forgotten, or else all.
const INODES_MAX: usize = 1 << 16;
/// So many directories are remembered of each session: those it lost last.
const LOST_MAX: usize = 32;
/// A session that is granted an inode along so many times and does not ask for it does not want it any more. In one turn of a few
/// milliseconds it may not come to ask.
const UNASKED_MAX: u32 = 8;
/// A session that changes a directory in none of so many turns only looks at it. In one turn it may not come to change it.
const LOOKS_MAX: u32 = 4;
/// SharedFS guesses what a new session does in a directory from the sessions before it. One that changed the directory after its first
/// look counts for a change, one that did not counts against it. The count goes up to this;
const NEWCOMERS_MAX: u32 = 4;
/// from this count on a new session is expected to change the directory.
const NEWCOMERS_CHANGE: u32 = 2;

#[derive(Clone, Copy, Debug)]
struct Contended {
    /// When a session was last fenced for it.
    fenced: Duration,
    /// Until when its holders may keep it.
    held_until: Duration,
    is_directory: bool,
    /// How sure it is that a new session changes the directory after its look.
    newcomers: u32,
}

/// A directory that a session held for writing when it was fenced for the directory.
#[derive(Clone, Copy, Debug)]
struct Lost {
    inode: InodeNumber,
    /// How often the session was granted the inode along with another one and did not ask for it.
    unasked: u32,
    /// Not zero if the session reads the inode and then changes it: so many turns without a change are left before it counts as one
    /// that only reads.
    looks_first: u32,
}

/// The contended inodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Contention {
    hold: Duration,
    inodes: HashMap<InodeNumber, Contended>,
    /// The directories that each session lost, the last one at the end.
    lost: HashMap<SessionId, VecDeque<Lost>>,
    /// Sessions that stay, as a mount does. Turns of programs that come and go do not tell their next ones, nor theirs those.
    staying: HashSet<SessionId>,
    /// Sessions that wait for an inode, in the order in which they began to. Threads of one may wait for several.
    waiting: VecDeque<(SessionId, InodeNumber)>,
}

impl Contention {
    pub(super) fn new(hold: Duration) -> Contention {
        Contention { hold, ..Contention::default() }
    }

    /// The session was fenced for a directory that it held for writing.
    pub(super) fn note_lost(&mut self, session: SessionId, inode: InodeNumber) {
        let looks_first = self.known(session, inode).map_or(0, |one| one.looks_first);
        self.remember(session, Lost { inode, unasked: 0, looks_first });
    }

    fn remember(&mut self, session: SessionId, one: Lost) {
        let lost = self.lost.entry(session).or_default();
        lost.retain(|other| other.inode != one.inode);
        if lost.len() == LOST_MAX {
            lost.pop_front();
        }
        lost.push_back(one);
    }

    /// Whether the session reads the inode and then changes it, as far as can be known.
    pub(super) fn looks_first(&self, session: SessionId, inode: InodeNumber) -> bool {
        let is_likely = || {
            !self.staying.contains(&session)
                && self.inodes.get(&inode).is_some_and(|contended| contended.newcomers >= NEWCOMERS_CHANGE)
        };
        self.known(session, inode).map_or_else(is_likely, |one| one.looks_first > 0)
    }

    fn known(&self, session: SessionId, inode: InodeNumber) -> Option<&Lost> {
        self.lost.get(&session).into_iter().flatten().find(|one| one.inode == inode)
    }

    /// The entry of the inode, if a turn of the session tells of sessions that come new to it.
    fn told_by(&mut self, session: SessionId, inode: InodeNumber) -> Option<&mut Contended> {
        let is_new = self.known(session, inode).is_none_or(|one| one.looks_first == 0);
        self.inodes.get_mut(&inode).filter(|_| is_new && !self.staying.contains(&session))
    }

    /// The session stays: others' turns say nothing of what it will do.
    pub(super) fn note_staying(&mut self, session: SessionId) {
        self.staying.insert(session);
    }

    /// The session looked at the inode, and changes it.
    pub(super) fn note_look(&mut self, session: SessionId, inode: InodeNumber) {
        if let Some(contended) = self.told_by(session, inode) {
            contended.newcomers = NEWCOMERS_MAX.min(contended.newcomers + 1);
        }
        self.remember(session, Lost { inode, unasked: 0, looks_first: LOOKS_MAX });
    }

    /// The session held the inode for a turn and did not change it.
    pub(super) fn note_only_looked(&mut self, session: SessionId, inode: InodeNumber) {
        if let Some(contended) = self.told_by(session, inode) {
            contended.newcomers = contended.newcomers.saturating_sub(1);
        }
        let lost = self.lost.get_mut(&session).into_iter().flatten();
        lost.filter(|one| one.inode == inode)
            .for_each(|one| one.looks_first = one.looks_first.saturating_sub(1));
    }

    /// The session was fenced for an inode that it was granted along with another one, and has not asked for.
    pub(super) fn note_unasked(&mut self, session: SessionId, inode: InodeNumber) {
        let Some(lost) = self.lost.get_mut(&session) else { return };
        lost.iter_mut().filter(|one| one.inode == inode).for_each(|one| one.unasked += 1);
        lost.retain(|one| one.unasked < UNASKED_MAX);
    }

    /// A session was fenced for the inode.
    pub(super) fn note(&mut self, inode: InodeNumber, now: Duration) {
        if self.inodes.len() >= INODES_MAX {
            self.inodes.retain(|_, contended| now < contended.fenced + MEMORY);
            if self.inodes.len() >= INODES_MAX {
                self.inodes.clear();
            }
        }
        let begun = Contended { fenced: now, held_until: now, is_directory: false, newcomers: 0 };
        let contended = self.inodes.entry(inode).or_insert(begun);
        (contended.fenced, contended.held_until) = (now, now);
    }

    /// The inode is gone.
    pub(super) fn end_inode(&mut self, inode: InodeNumber) {
        self.inodes.remove(&inode);
    }

    /// The session is gone.
    pub(super) fn end_session(&mut self, session: SessionId) {
        self.lost.remove(&session);
        self.staying.remove(&session);
        self.stop_waiting(session);
    }

    /// The contended inode is a directory.
    pub(super) fn note_directory(&mut self, inode: InodeNumber) {
        if let Some(contended) = self.inodes.get_mut(&inode) {
            contended.is_directory = true;
        }
    }

    /// Whether it is a directory that a session was fenced for.
    pub(super) fn is_directory(&self, inode: InodeNumber) -> bool {
        self.inodes.get(&inode).is_some_and(|contended| contended.is_directory)
    }

    /// The session waits for the inode.
    pub(super) fn wait(&mut self, session: SessionId, inode: InodeNumber) {
        if !self.waiting.contains(&(session, inode)) {
            self.waiting.push_back((session, inode));
        }
    }

    /// It waits no more.
    pub(super) fn stop_waiting(&mut self, session: SessionId) {
        self.waiting.retain(|&(other, _)| other != session);
    }

    /// The inodes that other sessions wait for, those that began to before this session did.
    pub(super) fn wanted_before(&self, session: SessionId) -> impl Iterator<Item = InodeNumber> + '_ {
        let before = self.waiting.iter().take_while(move |&&(other, _)| other != session);
        before.map(|&(_, inode)| inode)
    }

    /// The contended inodes that the session lost.
    pub(super) fn lost_by(
        &self,
        session: SessionId,
        now: Duration,
    ) -> impl Iterator<Item = InodeNumber> + '_ {
        let lost = self.lost.get(&session).into_iter().flatten().map(|one| one.inode);
        lost.filter(move |&inode| self.is_remembered(inode, now))
    }

    /// Whether a session was fenced for it not long ago.
    pub(super) fn is_remembered(&self, inode: InodeNumber, now: Duration) -> bool {
        self.inodes.get(&inode).is_some_and(|contended| now < contended.fenced + MEMORY)
    }

    /// The session that was granted the inode now may keep it for a moment.
    pub(super) fn hold(&mut self, inode: InodeNumber, now: Duration) {
        self.hold_until(inode, now + self.hold);
    }

    /// The session that has the inode may keep it until then.
    pub(super) fn hold_until(&mut self, inode: InodeNumber, until: Duration) {
        if let Some(contended) = self.inodes.get_mut(&inode) {
            contended.held_until = until;
        }
    }

    /// How long ago its holders' turn ended.
    pub(super) fn free_for(&self, inode: InodeNumber, now: Duration) -> Duration {
        self.inodes.get(&inode).map_or(Duration::MAX, |contended| now.saturating_sub(contended.held_until))
    }

    /// How much longer the holders of the inode may keep it.
    pub(super) fn held_for(&self, inode: InodeNumber, now: Duration) -> Option<Duration> {
        let left = self.inodes.get(&inode)?.held_until.saturating_sub(now);
        (!left.is_zero()).then_some(left)
    }
}
