//! The inodes that a session's log may speak of (SECURITY.md): those it makes with numbers that were granted to it,
//! and those it holds for writing. Inodes it held when it wrote entries that are not digested count as held.
//!
//! A log is its session's word. A digest checks once a batch, over all that the batch changed, that no foreign
//! inode is in it ([`Others::add_foreign`](crate::digest::Others)). So the check costs an honest log next to
//! nothing. A log with a foreign inode is applied again, up to the first operation that names it.
//!
//! Recovery cannot look: leases and granted numbers are the memory of a daemon that is gone. It takes each log as
//! that daemon would have taken it. To do otherwise, every grant would have to be made durable before it is used,
//! and all honest sessions would pay for that. A process that can make the daemon end with a forged log undigested
//! is of the daemon's own user, and could write to the store's files as well.
//!
//! Asked while no fence can end and before a digest is published, this is never stricter than the session's own
//! knowledge. A lease it lost by a fence it held until its log was digested. A lease it gave back lingers as long.

use super::table::Leases;
use cuesta_format::{InodeNumber, SessionId};
use hashbrown::HashSet;
use std::ops::Range;

/// An inode that a log changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedChange {
    /// Which.
    pub inode: InodeNumber,
    /// It is made; else it was there, and is changed.
    pub is_new: bool,
}

impl Leases {
    /// Whether no session but this one has said anything of the inode since its number was granted. It may not
    /// have been made yet, and then only this session can have it.
    #[must_use]
    pub fn may_be_unborn(&self, inode: InodeNumber, session: SessionId) -> Option<SessionId> {
        let maker = self.maker_without_entry(inode)?;
        (maker != session && !self.entries.contains_key(&inode)).then_some(maker)
    }

    /// Adds to `foreign` each of these inodes that the session's log may not say anything of (SECURITY.md). It
    /// may make those whose numbers were granted to it. It may change those it holds for writing, or held when
    /// it wrote entries that are not digested.
    pub fn add_foreign(
        &self,
        session: SessionId,
        changes: impl Iterator<Item = LoggedChange>,
        foreign: &mut HashSet<InodeNumber>,
    ) {
        // New inodes have numbers that lie behind each other.
        let mut own = 0..0;
        for LoggedChange { inode, is_new } in changes {
            let is_allowed = if is_new {
                if !own.contains(&inode.0) {
                    own = self.own_numbers(session, inode);
                }
                own.contains(&inode.0)
            } else {
                self.may_be_changed_by(session, inode)
            };
            if !is_allowed {
                foreign.insert(inode);
            }
        }
    }

    /// The range granted to the session that the inode's number lies in, or nothing.
    fn own_numbers(&self, session: SessionId, inode: InodeNumber) -> Range<u64> {
        match self.ranges.range(..=inode.0).next_back() {
            Some((&first, range)) if range.session == session => first..first.saturating_add(range.count),
            _ => 0..0,
        }
    }

    fn may_be_changed_by(&self, session: SessionId, inode: InodeNumber) -> bool {
        match self.entries.get(&inode) {
            Some(lease) => {
                let mut lingering = lease.lingering.iter().map(|&(other, _)| other);
                lease.writer == Some(session) || lingering.any(|other| other == session)
            }
            None => self.writer_without_entry(inode) == Some(session),
        }
    }
}
