//! Errors of the daemon's core.

use crate::metadata::MetadataError;
use crate::store::ConfigurationError;
use crate::tiers::Run;
use cuesta_format::emulation::Profile;
use cuesta_format::superblock::SuperblockError;
use cuesta_format::wire::Refusal;
use cuesta_format::{InodeNumber, Medium, TierNumber};
use cuesta_media::{AccessError, MediaError};
use rustix::io::Errno;
use std::io;
use std::path::PathBuf;

/// The daemon could not do its work. A client's mistake is a [`Refusal`] instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is a store already.
    #[error("{0} already holds a store")]
    Exists(String),
    /// The device that the store's segments and arenas lie on is refused.
    #[error("the device {}: {why}", .path.display())]
    Device {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// There is none.
    #[error("{0} holds no store (cuesta mkfs makes one)")]
    NoStore(String),
    /// The superblock is refused.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// The configuration is refused.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// A medium is to be played on a disk.
    #[error(
        "emulate = \"{0}\" in cuesta.toml: profiles are played on memory or pmem alone, and this store's medium is block"
    )]
    EmulatedDisk(Profile),
    /// Both copies of a session's record are damaged.
    #[error("the session table is damaged (slot {slot}): which logs there are cannot be told")]
    SessionTable {
        /// The slot.
        slot: u32,
    },
    /// Both copies of the session table's head are damaged.
    #[error("the session table is damaged (head): which numbers are free cannot be told")]
    SessionTableHead,
    /// All session slots are taken.
    #[error("too many programs are attached at once")]
    TooManySessions,
    /// No room for data.
    #[error("no space left on the store")]
    NoSpace,
    /// A mapped file failed.
    #[error(transparent)]
    Media(MediaError),
    /// An access to a mapped file failed.
    #[error("cannot access mapped storage: {0}")]
    Access(#[from] AccessError),
    /// The metadata store failed.
    #[error(transparent)]
    Metadata(MetadataError),
    /// The metadata store's content makes no sense; `cuesta fsck` tells more.
    #[error("the metadata store is damaged: {0}")]
    Damaged(String),
    /// A lower tier is not there, so neither is what lies on it.
    #[error("tier {0} is missing: what lies there cannot be read (cuesta tier list tells why)")]
    TierMissing(TierNumber),
    /// The disk of a lower tier refused a write.
    #[error("tier {tier} takes nothing any more: {why}")]
    TierFailed {
        /// The tier.
        tier: TierNumber,
        /// Why.
        why: String,
    },
    /// The medium does not take blocks.
    #[error("the medium does not take {} blocks at {}", .0.blocks, .0.address)]
    Unwritable(Run),
    /// A file holds something else than what was written to it.
    #[error("the content of inode {0} is damaged: its checksum is wrong")]
    Content(InodeNumber),
    /// The losses of a repair have not been told yet.
    #[error("a repair of it was broken off (cuesta fsck --repair ends it, and tells its losses)")]
    Repairing,
    /// A session that is not there, or not that process's.
    #[error("there is no such session")]
    NoSession,
    /// An earlier cut failed: how much of the logs the disk has is unknown.
    #[error("the disk did not take the logs")]
    LogUnwritten,
    /// The medium cannot do what an optimistic store promises.
    #[error("durability = \"optimistic\" is for stores on a disk: this store's medium is {0}")]
    OptimisticMedium(Medium),
    /// A file of the store failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// The action that was tried.
        action: &'static str,
        /// Its error.
        source: io::Error,
    },
}

impl Error {
    /// Whether what the metadata store holds was found to make no sense.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(
            self,
            Error::Damaged(_) | Error::Metadata(MetadataError::Damaged(_) | MetadataError::Journal(_))
        )
    }

    /// Whether the store is another daemon's by now.
    pub(crate) fn is_left(&self) -> bool {
        matches!(self, Error::Metadata(MetadataError::Left))
    }

    /// Attaches what was tried.
    pub fn io(action: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| Error::Io { action, source }
    }

    /// Attaches what was tried to the kernel's answer.
    pub fn errno(action: &'static str) -> impl Fn(Errno) -> Error {
        move |errno| Error::Io { action, source: errno.into() }
    }
}

impl From<MediaError> for Error {
    fn from(error: MediaError) -> Error {
        if error.is_full() { Error::NoSpace } else { Error::Media(error) }
    }
}

impl From<MetadataError> for Error {
    fn from(error: MetadataError) -> Error {
        match error {
            MetadataError::NoSpace => Error::NoSpace,
            error => Error::Metadata(error),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match error {
            Error::NoSpace => Refusal::NoSpace,
            Error::NoSession => Refusal::SessionEnded,
            // No client is told: the connection ends.
            error if error.is_left() => Refusal::Internal(error.to_string()),
            error => {
                tracing::error!(%error, "a request failed");
                Refusal::Internal(error.to_string())
            }
        }
    }
}
