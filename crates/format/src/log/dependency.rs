//! Dependencies between logs, on medium `block`.
//!
//! Everything in one log survives a loss of power as a prefix. Two logs have no common order on the disk: the kernel writes their pages
//! when it likes. So an entry says which part of another log must survive if it does.
//!
//! | log | depends on | because |
//! |---|---|---|
//! | of a program's session | the log of SharedFS's own session | the program saw an answer that SharedFS gave |
//! | of SharedFS's own session | the log of a program's session | SharedFS performs an operation that the program sent behind its own ones |
//!
//! | of any session of a store that goes by epochs | the epochs of the store ([`crate::epochs`]) | an operation survives only if its epoch is on the disk |
//!
//! An entry [`crate::Operation::DependOn`] stands before the first entry that depends.

use crate::{Epoch, LogGeneration, LogPosition, SessionId};
use serde::{Deserialize, Serialize};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A part of a log, from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogDependency {
    /// Whose log.
    pub session: SessionId,
    /// The generation that the position is of. A log of a later generation has all of this one in the shared area.
    pub generation: LogGeneration,
    /// Everything below.
    pub position: LogPosition,
}

/// What the body of the entry holds; the session is in the header.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Layout {
    generation: U64,
    position: U64,
}

/// Bytes of the entry's body.
pub(crate) const BODY_BYTES: usize = size_of::<Layout>();
const _: () = assert!(BODY_BYTES == 16);

impl LogDependency {
    /// The entries that follow were made in this epoch of the store, and survive only with it.
    #[must_use]
    pub const fn on_epoch(epoch: Epoch) -> LogDependency {
        LogDependency {
            session: SessionId::EPOCHS,
            generation: LogGeneration(0),
            position: LogPosition(epoch.0),
        }
    }

    /// The epoch, if it is a dependency on one.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        (self.session == SessionId::EPOCHS).then_some(Epoch(self.position.0))
    }

    pub(crate) fn body(&self) -> [u8; BODY_BYTES] {
        zerocopy::transmute!(Layout {
            generation: self.generation.0.into(),
            position: self.position.0.into()
        })
    }

    /// `None`: the body is too short or too long.
    pub(crate) fn decode(session: u64, body: &[u8]) -> Option<LogDependency> {
        let layout = Layout::ref_from_bytes(body).ok()?;
        Some(LogDependency {
            session: SessionId(session),
            generation: LogGeneration(layout.generation.get()),
            position: LogPosition(layout.position.get()),
        })
    }
}
