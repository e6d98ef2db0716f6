//! What calls on attributes take and answer.

use cuesta_format::{InodeRecord, Timestamp};

/// What `stat` tells. `record.blocks` counts blocks of [`cuesta_format::BLOCK_BYTES`], also those that are in the
/// log only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The attributes.
    pub record: InodeRecord,
}

/// What becomes of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SetTime {
    /// It stays (`UTIME_OMIT`).
    #[default]
    Omit,
    /// It becomes the present (`UTIME_NOW`).
    Now,
    /// It becomes this.
    To(Timestamp),
}

/// Which attributes change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SetAttributes {
    /// New permission bits.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// The owner and the group are set, be it to what they are: a `chown` that names neither takes set-id bits away
    /// like any other.
    pub chown: bool,
    /// New time of last read.
    pub accessed: SetTime,
    /// New time of last change of content.
    pub modified: SetTime,
}

impl SetAttributes {
    pub(super) fn changes_owner(&self) -> bool {
        self.chown || self.uid.is_some() || self.gid.is_some()
    }
}
