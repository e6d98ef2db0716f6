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
    /// Names a tier of a store, the fastest first: 0 is the fast tier.
    TierNumber(u8)
}
number! {
    /// A span of a store's history that reaches the disk as a whole ([`crate::epochs`]). 0: the store goes by none.
    Epoch(u64)
}
number! {
    /// Names a log segment: `logs/seg-NNNNNN`.
    SegmentId(u32)
}
number! {
    /// A byte address in the shared area. The top byte is the tier's number. Below it: the arena's index in that
    /// tier times the arena size, plus the offset inside. Always a multiple of the block size.
    BlockAddress(u64)
}

/// Names an arena: `arenas/arena-NNNNNN` on its tier. The top byte is the tier's number, and below it is the
/// arena's index in that tier, so that arenas of the fast tier have small numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArenaId(pub u32);

/// Bits of an arena's number that are its index in its tier.
const ARENA_INDEX_BITS: u32 = 24;
/// Bits of a block's address below the tier's number.
const ADDRESS_BITS: u32 = 56;

impl TierNumber {
    /// The fast tier.
    pub const FAST: TierNumber = TierNumber(0);
    /// The highest number there is. A number of a tier that was removed is not used again.
    pub const MAX: TierNumber = TierNumber(64);
}

impl ArenaId {
    /// The largest index there is. No tier has an arena with it.
    pub const INDEX_MAX: u32 = (1 << ARENA_INDEX_BITS) - 1;

    /// The arena with an index in a tier. An index that is too large names no arena.
    #[must_use]
    pub const fn new(tier: TierNumber, index: u64) -> ArenaId {
        let index = if index > Self::INDEX_MAX as u64 { Self::INDEX_MAX } else { index as u32 };
        ArenaId((tier.0 as u32) << ARENA_INDEX_BITS | index)
    }

    /// Its tier.
    #[must_use]
    pub const fn tier(self) -> TierNumber {
        TierNumber((self.0 >> ARENA_INDEX_BITS) as u8)
    }

    /// Its index among the arenas of its tier.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 & Self::INDEX_MAX
    }
}

impl fmt::Display for ArenaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tier() {
            TierNumber::FAST => write!(f, "{}", self.index()),
            tier => write!(f, "{} of tier {tier}", self.index()),
        }
    }
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
    /// The address of a byte of a tier.
    #[must_use]
    pub const fn in_tier(tier: TierNumber, offset: u64) -> BlockAddress {
        BlockAddress((tier.0 as u64) << ADDRESS_BITS | offset)
    }

    /// The tier it lies in.
    #[must_use]
    pub const fn tier(self) -> TierNumber {
        TierNumber((self.0 >> ADDRESS_BITS) as u8)
    }

    /// The byte of its tier that it names.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.0 & ((1 << ADDRESS_BITS) - 1)
    }

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
