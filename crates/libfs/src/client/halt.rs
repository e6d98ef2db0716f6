//! Why an attempt did not end: the operation's answer, or what the operation loop must do before the next attempt.
//!
//! This is a leaf. [`crate::client::operate`] acts on each variant.

use crate::errno::Error;
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::{InodeNumber, LogPosition};

/// Why an attempt did not come to an end.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The operation's answer.
    Failed(Error),
    /// Something changed between looking and locking.
    Again,
    /// The log must reach this position.
    LogFull(LogPosition),
    /// Credit for this many blocks is missing.
    Credit(u64),
    /// Inode numbers are used up.
    Numbers,
    /// The log holds as many entries as may lie undigested.
    Entries,
    /// What the log holds of an inode must be digested.
    Undigested,
    /// The log must say first what it depends on.
    Dependencies,
    /// Somebody with limits must have room to own more.
    Room { payer: Payer, needed: Amounts },
    /// The inode's extended attributes, of which access control lists are, must be known.
    Extended(InodeNumber),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Failed(error)
    }
}

impl Halt {
    /// Whether the operation waits, for what comes by itself or is asked for.
    pub(crate) fn is_wait(&self) -> bool {
        matches!(
            self,
            Halt::LogFull(_) | Halt::Credit(_) | Halt::Entries | Halt::Undigested | Halt::Room { .. }
        )
    }
}
