//! Which daemon a session belongs to: a counter in a page that outlives daemons.
//!
//! A program may go on writing into its log after its daemon was killed, while the next daemon recovers that very
//! log. So a daemon counts itself in before it reads any log, and a session reads the count after each
//! operation, as it reads its lease generation: an operation the recovery may not have seen is never acknowledged.

use crate::Error;
use cuesta_format::control::CONTROL_BYTES;
use cuesta_format::geometry::INCARNATION_FILE;
use cuesta_format::superblock::Medium;
use cuesta_media::{Mapping, Protection, create_allocated};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

/// The page and this daemon's number.
#[derive(Debug)]
pub(crate) struct Incarnation {
    path: PathBuf,
    number: u64,
}

impl Incarnation {
    /// Counts this daemon in: from now on no session of an earlier one acknowledges anything.
    pub(crate) fn begin(tier: &Path) -> Result<Incarnation, Error> {
        let path = tier.join(INCARNATION_FILE);
        if !path.exists() {
            create_allocated(&path, CONTROL_BYTES as u64)?;
        }
        let page = Mapping::open(&path, Protection::ReadWrite, Medium::Memory)?;
        let before = page
            .count_up(0)
            .map_err(|_| Error::Damaged(format!("{INCARNATION_FILE} is too short: remove it")))?;
        let number = before.wrapping_add(1);
        fence(Ordering::SeqCst);
        Ok(Incarnation { path, number })
    }

    /// This daemon's number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// A descriptor that reads the page.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd, Error> {
        File::open(&self.path).map(OwnedFd::from).map_err(Error::io("open the incarnation page"))
    }
}
