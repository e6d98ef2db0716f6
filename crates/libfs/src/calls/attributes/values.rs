//! What calls on attributes take and answer.

use cuesta_format::{InodeRecord, Timestamp};

/// The answer of `stat`. `record.blocks` counts blocks of [`cuesta_format::BLOCK_BYTES`], including those
/// that are only in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The attributes.
    pub record: InodeRecord,
}

/// How to set a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SetTime {
    /// Keep it (`UTIME_OMIT`).
    #[default]
    Omit,
    /// Set it to the present (`UTIME_NOW`).
    Now,
    /// Set it to this time.
    To(Timestamp),
}

/// The attributes to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SetAttributes {
    /// New permission bits.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// The call is a `chown`, even if it names the present owner and group: it clears set-id bits like any
    /// other.
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
