//! The outcome of a scrub, which reads content and compares checksums.

use crate::InodeNumber;
use serde::{Deserialize, Serialize};

/// Where in the store a look at all content goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubPlace {
    /// In this inode, or one behind it;
    pub inode: InodeNumber,
    /// from this block of it on.
    pub block: u64,
}

/// The blocks that were read, and the damage that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    /// The store's content has checksums: without, nothing can be found.
    pub checks_content: bool,
    /// Files whose beginning was looked at.
    pub files: u64,
    /// Blocks that were looked at.
    pub blocks: u64,
    /// Blocks of the store that the medium does not take, and that are not used any more.
    pub bad_blocks: u64,
    /// The damaged content, in order.
    pub damaged: Vec<DamagedContent>,
    /// Where to go on; `None`: all was looked at.
    pub next: Option<ScrubPlace>,
}

/// A part of a file whose checksums are wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedContent {
    /// The file.
    pub inode: InodeNumber,
    /// A path of it below the root, without a leading slash; empty: it has none.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// Where in it, in bytes: a multiple of the block size.
    pub offset: u64,
    /// How much, in whole blocks.
    pub bytes: u64,
}
