//! Strong types for numbers that must not be mixed up.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Names an inode for the life of the store; never used again for another file.
    InodeNumber(u64)
}
number! {
    /// Names one attachment of a LibFS to the store; never used again.
    SessionId(u64)
}
number! {
    /// A byte position in a session's operation log. It only grows: the log wraps, positions don't.
    LogPosition(u64)
}
number! {
    /// Bumped durably by every recovery and fence of a log, and part of each entry's checksum:
    /// what an older generation wrote never validates again.
    LogGeneration(u64)
}
number! {
    /// Bumped when a session loses a lease; an entry or a read made under an older one is void.
    LeaseGeneration(u64)
}
number! {
    /// A span of a store's history that reaches the disk as a whole ([`crate::epochs`]). 0: the store goes by none.
    Epoch(u64)
}
number! {
    /// Names an arena: `arenas/arena-NNNNNN` on its tier.
    ArenaId(u32)
}
number! {
    /// Names a log segment: `logs/seg-NNNNNN`.
    SegmentId(u32)
}
number! {
    /// A byte address in the fast tier: arena number times arena size, plus the offset inside.
    /// Always a multiple of the block size.
    BlockAddress(u64)
}

impl SessionId {
    /// No session's log: dependencies on it are on epochs of the store ([`crate::epochs`]).
    pub const EPOCHS: SessionId = SessionId(u64::MAX);
    /// No session. As the holder of an inode without a name: the processes that have it open, as can be seen
    /// ([`crate::control`]).
    pub const NOBODY: SessionId = SessionId(0);
}

impl InodeNumber {
    /// The root directory.
    pub const ROOT: InodeNumber = InodeNumber(1);
    /// No inode.
    pub const NONE: InodeNumber = InodeNumber(0);
}

impl LogPosition {
    /// The position `bytes` further on.
    #[must_use]
    pub fn plus(self, bytes: u64) -> LogPosition {
        LogPosition(self.0 + bytes)
    }
}

impl BlockAddress {
    /// The address `bytes` further on.
    #[must_use]
    pub fn plus(self, bytes: u64) -> BlockAddress {
        BlockAddress(self.0 + bytes)
    }
}

/// Tells stores apart: random, made by `cuesta mkfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoreId(pub [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
