//! The outcome of a migration, which moves content of files to another tier, and of a drain, which moves all content of a tier.

use super::ScrubPlace;
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
