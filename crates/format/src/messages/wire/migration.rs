//! The outcome of a migration, which moves content of files to another tier.

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
