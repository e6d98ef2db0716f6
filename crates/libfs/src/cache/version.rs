//! Values that tell a caller whether an inode is still as it was. They are leaves: only the calls that answer
//! them make them.

use cuesta_format::{InodeNumber, LogPosition};

/// A version of an inode. Two are equal, within one session, if nothing about the inode has changed between
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub(crate) inode: InodeNumber,
    pub(crate) filled: u64,
    pub(crate) logged: LogPosition,
}

impl Version {
    /// The inode.
    #[must_use]
    pub fn inode(&self) -> InodeNumber {
        self.inode
    }
}

/// A time during which the session held an inode. Two are equal, within one session, if no other session can
/// have changed the inode between them. Changes by this session, or through it, do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure(pub(crate) u64);
