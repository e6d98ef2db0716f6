//! Arenas whose files were cut or are gone, in a store with checksums of content: each gets its length again, and what was lost has no
//! checksum that is right. So reading it is an error, and everything else of the store goes on.

use super::Parts;
use crate::Error;
use cuesta_format::geometry::arena_path;
use cuesta_format::{ArenaId, Geometry};
use cuesta_media::create_allocated;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

/// An arena that has lost something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LostArena {
    /// Its file is gone.
    #[error("{0} is missing: files with blocks there cannot be read there (EIO)")]
    Missing(String),
    /// Its file ends early.
    #[error("{file} was cut to {found} of {right} bytes: files with blocks there cannot be read there (EIO)")]
    Cut {
        /// The file.
        file: String,
        /// How long it is,
        found: u64,
        /// and how long it was.
        right: u64,
    },
}

/// The arenas that have lost something, of `needed` that the metadata counts on.
pub(crate) fn lost_arenas(parts: &Parts, geometry: &Geometry, needed: u32) -> Result<Vec<LostArena>, Error> {
    let mut lost = Vec::new();
    if parts.is_device() || !geometry.checks_content {
        return Ok(lost);
    }
    let right = geometry.arena_file_bytes();
    for arena in (0..geometry.arenas_max()).map(ArenaId) {
        let file = arena_path(arena);
        match parts.tier().join(&file).metadata() {
            Ok(found) if found.len() < right => {
                lost.push(LostArena::Cut { file, found: found.len(), right });
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound && arena.0 < needed => {
                lost.push(LostArena::Missing(file));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) => return Err(Error::io("look at an arena")(error)),
        }
    }
    Ok(lost)
}

/// Gives them their length again.
pub(crate) fn mend_arenas(tier: &Path, geometry: &Geometry, lost: &[LostArena]) -> Result<(), Error> {
    for arena in lost {
        tracing::error!(%arena, "content is lost");
        match arena {
            LostArena::Missing(file) => {
                create_allocated(&tier.join(file), geometry.arena_file_bytes())?;
            }
            LostArena::Cut { file, right, .. } => {
                let file = File::options()
                    .write(true)
                    .open(tier.join(file))
                    .map_err(Error::io("open an arena that was cut"))?;
                rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, *right)
                    .map_err(Error::errno("give an arena its length again"))?;
                file.sync_all().map_err(Error::io("sync an arena"))?;
            }
        }
    }
    Ok(())
}
