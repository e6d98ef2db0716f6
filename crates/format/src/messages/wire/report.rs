//! The report to a session on the digests of its log.

use crate::{Extent, InodeNumber, LogPosition};
use serde::{Deserialize, Serialize};

/// What digests did to a session's files: apply in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The digests reported reach up to here.
    pub digested: LogPosition,
    /// New places of file content.
    pub placed: Vec<Placed>,
    /// More items follow: ask again with `skip` grown by what this one brought.
    pub more: bool,
}

/// A run of a file's blocks now lies here; whatever the file had there before is quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The file.
    pub inode: InodeNumber,
    /// The run.
    pub extent: Extent,
}
