//! Values that tell a caller whether an inode is still as it was. They are leaves: only the calls that answer them make them.

use cuesta_format::{InodeNumber, LogPosition};

/// Of an inode: equal, within one session, as long as nothing about it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub(crate) inode: InodeNumber,
    pub(crate) filled: u64,
    pub(crate) logged: LogPosition,
}

impl Version {
    /// Whose it is.
    #[must_use]
    pub fn inode(&self) -> InodeNumber {
        self.inode
    }
}

/// Of an inode: equal, within one session, as long as nobody else can have changed it. What the session itself changes, or
/// lets others change through it, leaves it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure(pub(crate) u64);
