//! Which inodes an operation changes: what its session must have held for writing, or been granted the number of.
//!
//! A log is its session's word. That others' files and directories are not in it is looked after once a batch, over all that
//! the batch changed ([`Others::add_foreign`](crate::digest::Others)), so that it costs an honest log next to nothing; a log
//! in which something foreign is found is applied again, up to the first operation that names it here.
//!
//! Recovery cannot look: leases, and who was granted which numbers, are the memory of a daemon that is gone. It takes what
//! is there for what that daemon would have taken. To tell otherwise every grant would have to be made durable before it is
//! used, which all honest sessions would pay for; and whoever can have the daemon end with a forged log undigested is of its own
//! user, and could write to the store's files as well.

use cuesta_format::{InodeNumber, Operation};

/// The inodes the operation changes or makes; [`InodeNumber::NONE`] for none.
#[must_use]
pub fn changed_by(operation: &Operation<'_>) -> [InodeNumber; 4] {
    const NONE: InodeNumber = InodeNumber::NONE;
    match *operation {
        Operation::Void => [NONE; 4],
        Operation::Write { inode, .. }
        | Operation::Truncate { inode, .. }
        | Operation::Clear { inode, .. }
        | Operation::Shift { inode, .. }
        | Operation::CreateUnnamed { inode, .. }
        | Operation::SetAttributes { inode, .. }
        | Operation::Release { inode }
        | Operation::SetExtended { inode, .. }
        | Operation::SetAccessList { inode, .. }
        | Operation::RemoveExtended { inode, .. } => [inode, NONE, NONE, NONE],
        Operation::Create { parent, inode, .. }
        | Operation::Link { parent, inode, .. }
        | Operation::Unlink { parent, inode, .. } => [parent, inode, NONE, NONE],
        Operation::Rename { parent, new_parent, inode, replaced, .. } => {
            [parent, new_parent, inode, replaced]
        }
    }
}
