//! The arena files: made whole (never sparse), mapped for as long as the daemon runs.

use crate::Error;
use cuesta_format::geometry::arena_path;
use cuesta_format::superblock::Medium;
use cuesta_format::{ArenaId, BlockAddress, Geometry};
use cuesta_media::{Mapping, Protection};
use parking_lot::RwLock;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All arenas of the tier, numbered from 0 without gaps.
#[derive(Debug)]
pub struct Arenas {
    tier: PathBuf,
    geometry: Geometry,
    medium: Medium,
    mapped: RwLock<Vec<Arc<Mapping>>>,
}

impl Arenas {
    /// Maps the arenas there are.
    pub fn open(tier: &Path, geometry: Geometry, medium: Medium) -> Result<Arenas, Error> {
        let mut mapped = Vec::new();
        for arena in 0..geometry.arenas_max() {
            let path = tier.join(arena_path(ArenaId(arena)));
            if !path.exists() {
                break;
            }
            let mapping = Mapping::open(&path, Protection::ReadWrite, medium)?;
            if mapping.len() != geometry.arena_bytes {
                return Err(Error::Damaged(format!("arena {arena} is {} bytes long", mapping.len())));
            }
            mapped.push(Arc::new(mapping));
        }
        Ok(Arenas { tier: tier.to_owned(), geometry, medium, mapped: RwLock::new(mapped) })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.mapped.read().len() as u32
    }

    /// Makes one more, its memory allocated, if the tier's size allows one and the medium has room.
    pub fn make(&self) -> Result<ArenaId, Error> {
        let arena = ArenaId(self.count());
        if arena.0 >= self.geometry.arenas_max() {
            return Err(Error::NoSpace);
        }
        let path = self.tier.join(arena_path(arena));
        let made = Mapping::create(&path, self.geometry.arena_bytes, self.medium, true);
        let mapping = made.map_err(|error| match error.errno() {
            rustix::io::Errno::NOSPC => Error::NoSpace,
            _ => Error::Media(error),
        })?;
        crate::store::sync_folder(path.parent().unwrap_or(&self.tier))?;
        self.mapped.write().push(Arc::new(mapping));
        Ok(arena)
    }

    /// The arena's mapping.
    pub fn mapping(&self, arena: ArenaId) -> Result<Arc<Mapping>, Error> {
        let mapping = self.mapped.read().get(arena.0 as usize).cloned();
        mapping.ok_or_else(|| Error::Damaged(format!("arena {arena} does not exist")))
    }

    /// All mappings, by arena.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Mapping>> {
        self.mapped.read().clone()
    }

    /// A descriptor that allows reading only, to hand to a session.
    pub fn descriptor(&self, arena: ArenaId) -> Result<OwnedFd, Error> {
        self.mapping(arena)?;
        rustix::fs::open(self.tier.join(arena_path(arena)), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(Error::errno("open an arena"))
    }

    /// Copies bytes out of one arena; the range must not cross its end.
    pub fn read(&self, address: BlockAddress, inside: u64, out: &mut [u8]) -> Result<(), Error> {
        let mapping = self.mapping(self.geometry.arena(address))?;
        Ok(mapping.read(self.geometry.arena_offset(address) + inside, out)?)
    }

    /// Makes bytes of one block zero, durably.
    pub fn clear(&self, address: BlockAddress, inside: u64, bytes: u64) -> Result<(), Error> {
        let mapping = self.mapping(self.geometry.arena(address))?;
        mapping.write_through(self.geometry.arena_offset(address) + inside, &vec![0; bytes as usize])?;
        mapping.fence();
        Ok(())
    }
}
