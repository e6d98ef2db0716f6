//! A segment or an arena, and where it lies.

use cuesta_format::Medium;
use cuesta_media::{Mapping, MediaError, Protection};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A segment or an arena.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its file, or the device,
    pub file: Arc<OwnedFd>,
    /// and where in that it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
}

impl Part {
    /// Maps all of it.
    pub fn map(&self, protection: Protection, medium: Medium) -> Result<Mapping, MediaError> {
        Mapping::of_file(&*self.file, self.offset, self.bytes, protection, medium, false)
    }
}
