//! Why an entry cannot be applied.

use crate::Error;
use cuesta_format::{BlockAddress, InodeNumber};

/// Why an entry with a valid checksum cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Rejection {
    #[error("inode {0} does not exist")]
    NoInode(InodeNumber),
    #[error("inode {0} exists already, or was not granted")]
    InodeTaken(InodeNumber),
    #[error("the session may not change inode {0}: it did not hold it")]
    NotHeld(InodeNumber),
    #[error("inode {0} is not of the kind this operation is for")]
    Kind(InodeNumber),
    #[error("the mode {0:o} names no kind of file")]
    Mode(u32),
    #[error("a name in directory {parent} stands for inode {found}, not {expected}")]
    Name { parent: InodeNumber, expected: InodeNumber, found: InodeNumber },
    #[error("directory {0} is not empty")]
    NotEmpty(InodeNumber),
    #[error("directory {0} would become its own ancestor")]
    Cycle(InodeNumber),
    #[error("inode {0} would leave the directory whose quota it is charged to, or come into another one")]
    Tree(InodeNumber),
    #[error("inode {0} has too many links")]
    Links(InodeNumber),
    #[error("inode {0} still has names, or is not held open")]
    NotOrphan(InodeNumber),
    #[error("it reaches past the largest file")]
    Size,
    #[error("it names blocks at {0} that were not granted to the session, or names them once more")]
    Window(BlockAddress),
    #[error("its range is empty, or not where it must be")]
    Range,
    #[error("its target does not fit its kind")]
    Target,
    #[error("it gives inode {0} an access control list that is none")]
    List(InodeNumber),
    #[error("inode {0} has more extended attributes than it may have")]
    Extended(InodeNumber),
    #[error("it was made under lease generation {found}, not {expected}")]
    Generation { expected: u64, found: u64 },
    #[error("its body cannot be read: {0}")]
    Body(#[from] cuesta_format::operation::OperationError),
    #[error("it needs more space than the session was granted")]
    Credit,
    #[error("the log was damaged here, and all entries behind are lost")]
    Damaged,
    #[error("the log is shorter than it was")]
    CutShort,
}

/// Why applying stops.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The entry is wrong: the log is given up here.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The blocks that the entry names are not as it says: a loss of power took them, and the log ends before it.
    #[error("the blocks of a staged write were lost")]
    Unwritten,
    /// The daemon cannot tell.
    #[error(transparent)]
    Failed(#[from] Error),
}
