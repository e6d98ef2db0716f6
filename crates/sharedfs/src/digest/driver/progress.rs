//! The result of a step of the digest.

use cuesta_format::SessionId;

/// The result of a step of the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A batch went into the shared area.
    Digested {
        /// Whose.
        session: SessionId,
        /// Bytes of its log.
        bytes: u64,
    },
    /// Something was made ready for later.
    Prepared,
    /// There is nothing to do.
    Idle,
}
