//! Arenas whose files were cut, are gone, or are not the ones that belong there, in a store with checksums of
//! content. Each gets its length again, and lost blocks have no checksum that is right. So reading them is an
//! error, and everything else of the store goes on.

use super::stamps;
use crate::Error;
use crate::tiers::device::Parts;
use cuesta_format::geometry::arena_path;
use cuesta_format::stamp::Misplaced;
use cuesta_format::{ArenaId, Geometry, StoreId, TierNumber};
use cuesta_media::create_allocated;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
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
    /// Its file is another one, or an old copy.
    #[error("{file}: {why}: files with blocks there cannot be read there (EIO)")]
    Misplaced {
        /// The file.
        file: String,
        /// The arena.
        arena: ArenaId,
        /// How it differs.
        why: Misplaced,
    },
}

/// The arenas that the metadata counts on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needed<'a> {
    /// The store.
    pub(crate) store: StoreId,
    /// The tier.
    pub(crate) tier: TierNumber,
    /// In which opening each arena was last written; 0: that was not noted.
    pub(crate) written_in: &'a [u64],
}

/// The arenas that have lost something of what the metadata counts on.
pub(crate) fn lost_arenas(
    parts: &Parts,
    geometry: &Geometry,
    needed: &Needed<'_>,
) -> Result<Vec<LostArena>, Error> {
    let mut lost = Vec::new();
    if parts.is_device() || !geometry.checks_content {
        return Ok(lost);
    }
    let right = geometry.arena_file_bytes();
    for arena in (0..geometry.arenas_max()).map(|index| ArenaId::new(needed.tier, index.into())) {
        let file = arena_path(arena);
        match parts.tier().join(&file).metadata() {
            Ok(found) if found.len() < right => {
                lost.push(LostArena::Cut { file, found: found.len(), right });
            }
            Ok(_) => {
                let written_in = needed.written_in.get(arena.index() as usize).copied().unwrap_or_default();
                if let Err(why) = stamps::judge(parts.tier(), geometry, needed.store, arena, written_in) {
                    lost.push(LostArena::Misplaced { file, arena, why });
                }
            }
            Err(error)
                if error.kind() == ErrorKind::NotFound
                    && (arena.index() as usize) < needed.written_in.len() =>
            {
                lost.push(LostArena::Missing(file));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) => return Err(Error::io("look at an arena")(error)),
        }
    }
    Ok(lost)
}

/// Gives them their length again.
pub(crate) fn mend_arenas(
    tier: &Path,
    geometry: &Geometry,
    needed: &Needed<'_>,
    lost: &[LostArena],
) -> Result<(), Error> {
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
            LostArena::Misplaced { file, arena, .. } => {
                let file = File::options()
                    .write(true)
                    .open(tier.join(file))
                    .map_err(Error::io("open an arena that does not belong there"))?;
                let sums = vec![0; (geometry.arena_file_bytes() - geometry.arena_bytes) as usize];
                file.write_all_at(&sums, geometry.arena_bytes)
                    .and_then(|()| file.sync_all())
                    .map_err(Error::io("take away an arena's checksums"))?;
                let written_in = needed.written_in.get(arena.index() as usize).copied().unwrap_or_default();
                stamps::write(&file, geometry, needed.store, *arena, written_in)?;
                file.sync_all().map_err(Error::io("sync an arena"))?;
            }
        }
    }
    Ok(())
}
