//! The outcome of a migration, which moves content of files to another tier, and of a drain, which moves all content of a tier.

use super::ScrubPlace;
use crate::{TierNumber, Timestamp};
use serde::{Deserialize, Serialize};

/// Where a migration of a file, or of all files in a directory, goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationPlace {
    /// The file, by its path below the one that is migrated; empty: that is the file.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// From this block of it on; `u64::MAX`: behind it.
    pub block: u64,
}

/// What became of the files that were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migrated {
    /// Files whose beginning was looked at.
    pub files: u64,
    /// Blocks that were moved.
    pub blocks: u64,
    /// Blocks that stayed, because they are damaged or of a missing tier.
    pub blocks_stayed: u64,
    /// Files that stayed, because programs map them.
    pub files_pinned: u64,
    /// Files of which a part stayed, because programs changed them all the time.
    pub files_busy: u64,
    /// The tier has no room for the rest.
    pub is_full: bool,
    /// Where to go on; `None`: all was looked at, or the tier is full.
    pub next: Option<MigrationPlace>,
}

/// What became of the content of a tier that is drained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// Blocks that were moved.
    pub blocks: u64,
    /// Blocks that stayed, because they are damaged.
    pub blocks_stayed: u64,
    /// Files that stayed, because programs map them.
    pub files_pinned: u64,
    /// Files of which a part stayed, because programs changed them all the time.
    pub files_busy: u64,
    /// Blocks of the tier that files have, or sessions may write.
    pub blocks_left: u64,
    /// No other tier has room for the rest.
    pub is_full: bool,
    /// Where to go on; `None`: all was looked at once, or the other tiers are full.
    pub next: Option<ScrubPlace>,
}

/// Why content came to a tier, or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveCause {
    /// A digest placed what programs wrote.
    Digest,
    /// It cooled.
    Cold,
    /// It was read often: a copy came up.
    Hot,
    /// It is pinned to the tier.
    Pinned,
    /// `cuesta migrate`.
    ByHand,
    /// The tier that it was on is drained.
    Drained,
}

impl MoveCause {
    /// As people say it.
    #[must_use]
    pub fn told(self) -> &'static str {
        match self {
            MoveCause::Digest => "digest",
            MoveCause::Cold => "cold",
            MoveCause::Hot => "hot",
            MoveCause::Pinned => "pinned",
            MoveCause::ByHand => "by hand",
            MoveCause::Drained => "drained",
        }
    }
}

/// A move of content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMove {
    /// From which tier.
    pub from: TierNumber,
    /// To which.
    pub to: TierNumber,
    /// How many blocks.
    pub blocks: u64,
    /// When the last of them did.
    pub at: Timestamp,
    /// Why.
    pub cause: MoveCause,
    /// The rule of the policy that chose the content; empty: there is none.
    pub rule: String,
    /// How the policy rated it.
    pub score: Option<String>,
}

/// Blocks that came to a tier and left it for one cause, since the daemon started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierMoves {
    /// The cause.
    pub cause: MoveCause,
    /// Blocks that came.
    pub blocks_in: u64,
    /// Blocks that left.
    pub blocks_out: u64,
}

impl TierMoves {
    /// None yet.
    #[must_use]
    pub fn new(cause: MoveCause) -> TierMoves {
        TierMoves { cause, blocks_in: 0, blocks_out: 0 }
    }
}
