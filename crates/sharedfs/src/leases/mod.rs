//! Leases: who may cache an inode, and who may change it (DESIGN §8).
//!
//! A state machine without sockets, clocks or locks: the daemon feeds it requests and reports of what it has
//! done, and it answers what must happen first.
//!
//! | state of an inode for a session | how it gets there | what another session's request finds |
//! |---|---|---|
//! | none | at first; after revocation | granted |
//! | reading | granted Read | Read: granted; Write: fence the reader |
//! | writing | granted Write; born of the session's inode numbers | fence the writer |
//! | lingering until P | given back while the log was not digested beyond P | digest the session up to P |
//!
//! A session's new inodes are not entered one by one: whatever lies in the inode numbers granted to it counts
//! as written by it until it gave it back or lost it.

use cuesta_format::wire::LeaseMode;
use cuesta_format::{InodeNumber, LogPosition, SessionId};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;

/// What a request leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lease is granted, in this mode or a stronger one.
    Granted(LeaseMode),
    /// These sessions must be fenced and [`Leases::revoke`]d first; then ask again.
    Fence(Vec<SessionId>),
    /// This session's log must be digested up to the position first; then ask again.
    Drain(SessionId, LogPosition),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lease {
    writer: Option<SessionId>,
    readers: Vec<SessionId>,
    lingering: Vec<(SessionId, LogPosition)>,
}

impl Lease {
    fn is_vacant(&self) -> bool {
        self.writer.is_none() && self.readers.is_empty() && self.lingering.is_empty()
    }

    fn holders(&self) -> impl Iterator<Item = SessionId> {
        self.writer.iter().chain(&self.readers).copied()
    }
}

#[derive(Clone, Copy, Debug)]
struct Range {
    count: u64,
    session: SessionId,
}

/// The table of leases.
#[derive(Debug, Default)]
pub struct Leases {
    entries: HashMap<InodeNumber, Lease>,
    /// Inodes each session has an entry for (a vacant entry in its own range counts).
    of_session: HashMap<SessionId, HashSet<InodeNumber>>,
    ranges: BTreeMap<u64, Range>,
}

impl Leases {
    /// Inode numbers granted to a session: what it creates there is its own.
    pub fn grant_numbers(&mut self, session: SessionId, first: InodeNumber, count: u32) {
        self.ranges.insert(first.0, Range { count: u64::from(count), session });
    }

    /// The session the inode's number was granted to, while that session lives.
    #[must_use]
    pub fn owner_of_number(&self, inode: InodeNumber) -> Option<SessionId> {
        let (&first, range) = self.ranges.range(..=inode.0).next_back()?;
        (inode.0 - first < range.count).then_some(range.session)
    }

    fn lease(&self, inode: InodeNumber) -> Lease {
        self.entries
            .get(&inode)
            .cloned()
            .unwrap_or_else(|| Lease { writer: self.owner_of_number(inode), ..Lease::default() })
    }

    fn store(&mut self, inode: InodeNumber, lease: Lease) {
        let owner = self.owner_of_number(inode);
        if lease.is_vacant() && owner.is_none() {
            self.entries.remove(&inode);
            return;
        }
        let sessions = lease.holders().chain(lease.lingering.iter().map(|&(session, _)| session));
        for session in sessions.chain(owner) {
            self.of_session.entry(session).or_default().insert(inode);
        }
        self.entries.insert(inode, lease);
    }

    fn forget(&mut self, session: SessionId, inode: InodeNumber) {
        if self.owner_of_number(inode) != Some(session)
            && let Some(inodes) = self.of_session.get_mut(&session)
        {
            inodes.remove(&inode);
        }
    }

    /// A session asks for a lease. `mode` is what it needs; it gets Write where nobody else is interested, so
    /// that it does not have to ask again.
    pub fn request(&mut self, session: SessionId, inode: InodeNumber, mode: LeaseMode) -> Outcome {
        let mut lease = self.lease(inode);
        if let Some(&(other, until)) = lease.lingering.first() {
            return Outcome::Drain(other, until);
        }
        if lease.writer == Some(session) {
            return Outcome::Granted(LeaseMode::Write);
        }
        let others: Vec<SessionId> = match mode {
            LeaseMode::Read => lease.writer.into_iter().collect(),
            LeaseMode::Write => lease.holders().filter(|&other| other != session).collect(),
        };
        if !others.is_empty() {
            return Outcome::Fence(others);
        }
        let granted = if lease.readers.iter().all(|&reader| reader == session) {
            lease.readers.clear();
            lease.writer = Some(session);
            LeaseMode::Write
        } else {
            if !lease.readers.contains(&session) {
                lease.readers.push(session);
            }
            LeaseMode::Read
        };
        self.store(inode, lease);
        Outcome::Granted(granted)
    }

    /// The session was fenced and digested: its lease on the inode is gone.
    pub fn revoke(&mut self, session: SessionId, inode: InodeNumber) {
        let mut lease = self.lease(inode);
        lease.writer = lease.writer.filter(|&writer| writer != session);
        lease.readers.retain(|&reader| reader != session);
        lease.lingering.retain(|&(other, _)| other != session);
        self.store(inode, lease);
        self.forget(session, inode);
    }

    /// The session gave the inode back; its log may still change it up to `until`.
    pub fn give_back(&mut self, session: SessionId, inode: InodeNumber, until: Option<LogPosition>) {
        if self.held(session, inode).is_none() {
            return;
        }
        self.revoke(session, inode);
        if let Some(until) = until {
            let mut lease = self.lease(inode);
            lease.lingering.push((session, until));
            self.store(inode, lease);
        }
    }

    /// The session's log was digested up to `digested`: what lingered up to there is free.
    pub fn digested(&mut self, session: SessionId, inode: InodeNumber, digested: LogPosition) {
        let mut lease = self.lease(inode);
        lease.lingering.retain(|&(other, until)| other != session || until > digested);
        let gone = lease.lingering.iter().all(|&(other, _)| other != session);
        self.store(inode, lease);
        if gone {
            self.forget(session, inode);
        }
    }

    /// The mode in which the session holds the inode.
    #[must_use]
    pub fn held(&self, session: SessionId, inode: InodeNumber) -> Option<LeaseMode> {
        let Some(lease) = self.entries.get(&inode) else {
            return (self.owner_of_number(inode) == Some(session)).then_some(LeaseMode::Write);
        };
        if lease.writer == Some(session) {
            return Some(LeaseMode::Write);
        }
        lease.readers.contains(&session).then_some(LeaseMode::Read)
    }

    /// Everybody who holds the inode.
    #[must_use]
    pub fn holders(&self, inode: InodeNumber) -> Vec<(SessionId, LeaseMode)> {
        let lease = self.lease(inode);
        let writer = lease.writer.iter().map(|&session| (session, LeaseMode::Write));
        writer.chain(lease.readers.iter().map(|&session| (session, LeaseMode::Read))).collect()
    }

    /// How many inodes the session holds, its own new ones not counted.
    #[must_use]
    pub fn count(&self, session: SessionId) -> u64 {
        self.of_session.get(&session).map_or(0, |inodes| inodes.len() as u64)
    }

    /// The session is gone, its log digested to the end.
    pub fn end_session(&mut self, session: SessionId) {
        self.ranges.retain(|_, range| range.session != session);
        for inode in self.of_session.remove(&session).unwrap_or_default() {
            let Some(mut lease) = self.entries.remove(&inode) else { continue };
            lease.writer = lease.writer.filter(|&writer| writer != session);
            lease.readers.retain(|&reader| reader != session);
            lease.lingering.retain(|&(other, _)| other != session);
            if !lease.is_vacant() {
                self.entries.insert(inode, lease);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);
    const X: InodeNumber = InodeNumber(10);

    #[test]
    fn an_uncontended_reader_gets_write() {
        let mut leases = Leases::default();
        assert_eq!(leases.request(A, X, LeaseMode::Read), Outcome::Granted(LeaseMode::Write));
        assert_eq!(leases.held(A, X), Some(LeaseMode::Write));
        assert_eq!(leases.held(B, X), None);
    }

    #[test]
    fn a_writer_is_fenced_for_a_reader_and_readers_share() {
        let mut leases = Leases::default();
        leases.request(A, X, LeaseMode::Write);
        assert_eq!(leases.request(B, X, LeaseMode::Read), Outcome::Fence(vec![A]));
        leases.revoke(A, X);
        assert_eq!(leases.request(B, X, LeaseMode::Read), Outcome::Granted(LeaseMode::Write));
        assert_eq!(leases.request(A, X, LeaseMode::Read), Outcome::Fence(vec![B]));
    }

    #[test]
    fn what_a_session_creates_is_its_own_until_it_loses_it() {
        let mut leases = Leases::default();
        leases.grant_numbers(A, X, 5);
        assert_eq!(leases.held(A, InodeNumber(14)), Some(LeaseMode::Write));
        assert_eq!(leases.held(A, InodeNumber(15)), None);
        assert_eq!(leases.request(B, InodeNumber(14), LeaseMode::Read), Outcome::Fence(vec![A]));
        leases.revoke(A, InodeNumber(14));
        assert_eq!(leases.held(A, InodeNumber(14)), None);
        assert_eq!(leases.request(B, InodeNumber(14), LeaseMode::Read), Outcome::Granted(LeaseMode::Write));
        leases.end_session(B);
        assert_eq!(leases.request(A, InodeNumber(14), LeaseMode::Read), Outcome::Granted(LeaseMode::Write));
        leases.end_session(A);
        assert!(leases.entries.is_empty() && leases.of_session.is_empty() && leases.ranges.is_empty());
    }

    #[test]
    fn given_back_with_an_undigested_log_it_lingers() {
        let mut leases = Leases::default();
        leases.request(A, X, LeaseMode::Write);
        leases.give_back(A, X, Some(LogPosition(640)));
        assert_eq!(leases.request(B, X, LeaseMode::Read), Outcome::Drain(A, LogPosition(640)));
        assert_eq!(leases.request(A, X, LeaseMode::Read), Outcome::Drain(A, LogPosition(640)));
        leases.digested(A, X, LogPosition(576));
        assert_eq!(leases.request(B, X, LeaseMode::Read), Outcome::Drain(A, LogPosition(640)));
        leases.digested(A, X, LogPosition(640));
        assert_eq!(leases.request(B, X, LeaseMode::Write), Outcome::Granted(LeaseMode::Write));
        assert_eq!(leases.count(A), 0);
    }

    #[test]
    fn what_is_not_held_is_not_given_back() {
        let mut leases = Leases::default();
        leases.request(A, X, LeaseMode::Write);
        leases.give_back(B, X, Some(LogPosition(64)));
        assert_eq!(leases.held(A, X), Some(LeaseMode::Write));
    }

    #[test]
    fn the_end_of_a_session_frees_everything() {
        let mut leases = Leases::default();
        leases.request(A, X, LeaseMode::Write);
        leases.request(A, InodeNumber(11), LeaseMode::Write);
        leases.give_back(A, InodeNumber(11), Some(LogPosition(64)));
        leases.end_session(A);
        assert_eq!(leases.request(B, X, LeaseMode::Write), Outcome::Granted(LeaseMode::Write));
        assert_eq!(leases.request(B, InodeNumber(11), LeaseMode::Write), Outcome::Granted(LeaseMode::Write));
    }
}
