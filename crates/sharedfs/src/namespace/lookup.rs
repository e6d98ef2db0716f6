//! A view's questions about everything that was committed before its batch.

use crate::Error;
use crate::metadata::{Dirent, StoredInode};
use crate::tiers::Run;
use cuesta_format::operation::StagedWrite;
use cuesta_format::{CallSlot, Caller, Extent, InodeNumber, LogPosition, SessionId};

/// Where a view finds the committed state before its batch.
pub trait Lookup {
    /// An inode.
    fn inode(&self, inode: InodeNumber) -> Result<Option<StoredInode>, Error>;
    /// All extents of an inode that has them in the table.
    fn table_extents(&self, inode: InodeNumber) -> Result<Vec<Extent>, Error>;
    /// A name.
    fn name(&self, parent: InodeNumber, name: &[u8]) -> Result<Option<Dirent>, Error>;
    /// Length of the value of an extended attribute, in bytes, if the inode has it.
    fn extended(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<u32>, Error>;
    /// The session the inode is kept for although it has no name.
    fn holder(&self, inode: InodeNumber) -> Option<SessionId>;
    /// Whether another session than that of the log, or a descriptor, has the inode open.
    fn is_open_elsewhere(&self, inode: InodeNumber) -> bool;
    /// Whether another log may say something of the inode that is not digested.
    fn is_in_logs_elsewhere(&self, inode: InodeNumber) -> bool;
    /// Whether all blocks of a run are granted to the log's session, to be named once.
    fn may_name(&self, run: Run) -> bool;
    /// Whether the blocks of a staged write, whose entry ends at `end`, hold what the entry says. Where a loss of power
    /// cannot have taken them, they do. An entry that was acknowledged counts with any content.
    fn is_there(&self, staged: &StagedWrite<'_>, end: LogPosition) -> Result<bool, Error>;
    /// The slots of which a caller has records.
    fn call_slots(&self, caller: Caller) -> Result<Vec<CallSlot>, Error>;
}
