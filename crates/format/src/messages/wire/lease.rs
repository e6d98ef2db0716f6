//! Leases: the records that come with one, and the outcome of a fence for a session's leases.

use super::Report;
use crate::{Extent, InodeNumber, InodeRecord, LeaseGeneration, LogGeneration, LogPosition};
use serde::{Deserialize, Serialize};

/// Most names of [`KeptNames::doubtful`].
pub const DOUBTFUL_MAX: usize = 64;

/// What may be done under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LeaseMode {
    /// Cache and read.
    Read,
    /// Cache, read and change.
    Write,
}

/// Which operations a session would send rather than have a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sends {
    /// None.
    Nothing,
    /// Those on the content of an open file.
    Contents,
    /// Those on names in a directory.
    Names,
    /// All of both kinds.
    Everything,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The name.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// The inode it names.
    pub inode: InodeNumber,
    /// The kind of what it names, as [`crate::FileKind`]'s byte.
    pub kind: u8,
}

/// An extended attribute of an inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtendedAttribute {
    /// Its name, with its namespace.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// Its value.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

/// A lease on an inode, with the inode's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The inode as the shared area has it.
    pub record: InodeRecord,
    /// The mode granted (never less than asked for).
    pub mode: LeaseMode,
    /// Its first extents, in order; all of them if `extents_complete`.
    pub extents: Vec<Extent>,
    /// No extent is missing.
    pub extents_complete: bool,
    /// Target of a symbolic link.
    #[serde(with = "serde_bytes")]
    pub target: Vec<u8>,
    /// The first entries of a directory, in name order; all of them if `entries_complete`.
    pub entries: Vec<DirectoryEntry>,
    /// No entry is missing.
    pub entries_complete: bool,
    /// The entries are those that changed since the version the session still has ([`KeptNames`]), in the order in which they
    /// did; what names [`InodeNumber::NONE`] is there no more.
    pub entries_changed: bool,
    /// Its extended attributes in name order, all of them; none if they are too many to bring along, which
    /// [`InodeRecord::extended`] tells from there being none.
    pub extended: Vec<ExtendedAttribute>,
    /// It has no name and is kept for this session, which is to release it.
    pub kept: bool,
}

/// The names that a session still has of a directory whose lease it lost: all of them, as they were then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNames {
    /// Which version that is ([`Resynced::versions`]).
    pub version: u64,
    /// Names that it changed and SharedFS never heard of; at most [`DOUBTFUL_MAX`].
    pub doubtful: Vec<Vec<u8>>,
}

/// The outcome of a fence, for the session that was fenced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resynced {
    /// Every entry that ends at or below this position was accepted and digested.
    pub accepted: LogPosition,
    /// The log goes on here (the start of the void part)…
    pub resume: LogPosition,
    /// … under this generation.
    pub log_generation: LogGeneration,
    /// The lease generation the leases that remain are held under.
    pub lease_generation: LeaseGeneration,
    /// Leases that are gone: drop what is cached of these inodes.
    pub revoked: Vec<InodeNumber>,
    /// All are gone.
    pub revoked_all: bool,
    /// Directories among them, and versions of their names in the shared area: that which the session has, if its log held
    /// nothing that was not accepted.
    pub versions: Vec<(InodeNumber, u64)>,
    /// What digests placed that the session has not retired.
    pub report: Report,
}
