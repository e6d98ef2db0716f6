//! The log that is being applied.

use cuesta_format::SessionId;
use std::ops::Range;

/// The log being applied.
pub struct Applied<'a, L> {
    /// The committed state before it.
    pub store: &'a L,
    /// The copied log, which operations borrow from.
    pub batch: &'a [u8],
    /// The log's session.
    pub session: SessionId,
    /// Inode numbers a new inode may have.
    pub numbers: Range<u64>,
}
