//! Why an attempt did not end: the operation's answer, or what the operation loop must do before the next
//! attempt.
//!
//! This is a leaf. [`crate::client::operate`] acts on each variant.

use crate::errno::Error;
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::{InodeNumber, LogPosition};

/// Why an attempt did not end.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The operation has failed: this is its answer.
    Failed(Error),
    /// Something changed between the look and the lock. Try again.
    Again,
    /// The log must reach this position.
    LogFull(LogPosition),
    /// Credit for this many blocks is missing.
    Credit(u64),
    /// Inode numbers are used up.
    Numbers,
    /// The log holds as many undigested entries as recovery may have to digest.
    Entries,
    /// In optimistic mode, the disk must take what the log holds first.
    Unwritten,
    /// SharedFS must digest what the log holds of an inode.
    Undigested,
    /// The log must first declare what it depends on.
    Dependencies,
    /// A payer with a limit must get room to own more.
    Room { payer: Payer, needed: Amounts },
    /// The client must fetch the inode's extended attributes, which include access control lists.
    Extended(InodeNumber),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Failed(error)
    }
}

impl Halt {
    /// Whether the operation waits for something that SharedFS frees or grants.
    pub(crate) fn is_wait(&self) -> bool {
        matches!(
            self,
            Halt::LogFull(_) | Halt::Credit(_) | Halt::Entries | Halt::Undigested | Halt::Room { .. }
        )
    }
}
