//! The committed state before a batch: the metadata store's snapshot, and the inodes that other sessions have open
//! or leased.

use super::orphans::Orphans;
use super::storage::Storage;
use crate::Error;
use crate::metadata::{Dirent, Snapshot, StoredInode};
use crate::namespace::Lookup;
use crate::sessions::Openers;
use crate::tiers::Run;
use cuesta_format::operation::StagedWrite;
use cuesta_format::{CallSlot, Caller, Extent, InodeNumber, LogPosition, SessionId};
use cuesta_media::planted::{self, Bug};
use std::cell::{OnceCell, RefCell};
use std::ops::Range;

pub(super) struct Before<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) inodes_end: InodeNumber,
    pub(super) orphans: &'a Orphans,
    pub(super) session: SessionId,
    pub(super) storage: &'a Storage<'a>,
    /// Numbers that no inode had, as the last look for a new one showed: a session's new inodes have numbers behind each other.
    pub(super) free_numbers: RefCell<Range<u64>>,
    /// Looked for when it is first asked for, after the log was read.
    pub(super) openers: OnceCell<Openers<'a>>,
}

impl Lookup for Before<'_> {
    fn inode(&self, inode: InodeNumber) -> Result<Option<StoredInode>, Error> {
        // New files have numbers behind all others, most of the time.
        if inode >= self.inodes_end || self.free_numbers.borrow().contains(&inode.0) {
            return Ok(None);
        }
        let found = self.snapshot.inode(inode)?;
        if found.is_none()
            && let Some(free) = self.snapshot.numbers_free_from(inode)?
        {
            *self.free_numbers.borrow_mut() = free;
        }
        Ok(found)
    }

    fn table_extents(&self, inode: InodeNumber) -> Result<Vec<Extent>, Error> {
        Ok(self.snapshot.extents(inode, 0..u64::MAX)?)
    }

    fn name(&self, parent: InodeNumber, name: &[u8]) -> Result<Option<Dirent>, Error> {
        Ok(self.snapshot.lookup(parent, name)?)
    }

    fn extended(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<u32>, Error> {
        Ok(self.snapshot.extended_length(inode, name)?.map(|bytes| bytes as u32))
    }

    fn holder(&self, inode: InodeNumber) -> Option<SessionId> {
        self.orphans.holder(inode)
    }

    fn is_open_elsewhere(&self, inode: InodeNumber) -> bool {
        self.openers.get_or_init(|| self.storage.others.openers(self.session)).have(inode)
    }

    fn is_in_logs_elsewhere(&self, inode: InodeNumber) -> bool {
        self.storage.recovering || self.storage.others.have_lease(inode, self.session)
    }

    fn may_name(&self, run: Run) -> bool {
        self.storage.space.lock().windows.hold(self.session, run)
    }

    fn is_there(&self, staged: &StagedWrite<'_>, end: LogPosition) -> Result<bool, Error> {
        if !self.storage.recovering || planted::active(Bug::StagedNotCompared) {
            return Ok(true);
        }
        Ok(self.storage.arenas.hold_staged(staged)?
            || self.storage.others.is_acknowledged(self.session, end)?)
    }

    fn call_slots(&self, caller: Caller) -> Result<Vec<CallSlot>, Error> {
        Ok(self.snapshot.call_slots(caller)?)
    }
}
