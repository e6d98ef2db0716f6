//! Files of the arenas that content is written to by calls: those of medium `block` ([`SharedMemory::write_by_calls`]).
//!
//! Some stay open; a disk may have more arenas than a process may have descriptors. All are looked for in the
//! folder that was the tier's when it was opened. Another store may have its name by now, and its arenas are not to
//! be written.
//!
//! [`SharedMemory::write_by_calls`]: cuesta_media::SharedMemory::write_by_calls

use crate::Error;
use crate::tiers::device::Parts;
use cuesta_format::geometry::arena_path;
use cuesta_format::{ArenaId, Geometry};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// So many stay open, each in the place its number has among them.
const KEPT: usize = 64;

type OpenArena = Mutex<Option<(ArenaId, Arc<OwnedFd>)>>;

/// The files of a tier's arenas.
#[derive(Debug)]
pub(crate) struct WrittenArenas {
    place: Place,
    kept: [OpenArena; KEPT],
}

#[derive(Debug)]
enum Place {
    /// A folder with a file for each.
    Folder(OwnedFd),
    /// A disk that holds all of them.
    Disk(Arc<Parts>, Geometry),
}

/// The file that an arena is written to, and where in it the arena begins.
#[derive(Clone, Debug)]
pub(crate) struct WrittenArena {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) offset: u64,
}

impl WrittenArenas {
    pub(crate) fn open(parts: &Arc<Parts>, geometry: Geometry) -> Result<WrittenArenas, Error> {
        let kept = std::array::from_fn(|_| Mutex::default());
        if parts.disk().is_some() {
            return Ok(WrittenArenas { place: Place::Disk(Arc::clone(parts), geometry), kept });
        }
        Ok(WrittenArenas { place: Place::Folder(open_folder(parts.tier())?), kept })
    }

    /// An arena's file, or why it cannot be opened.
    pub(crate) fn file(&self, arena: ArenaId) -> Result<WrittenArena, Errno> {
        let folder = match &self.place {
            Place::Folder(folder) => folder,
            Place::Disk(parts, geometry) => {
                let disk = parts.disk().ok_or(Errno::NODEV)?;
                let offset = disk.offset(arena, geometry);
                return Ok(WrittenArena { file: Arc::clone(disk.file()), offset });
            }
        };
        let mut kept = self.kept[arena.index() as usize % KEPT].lock();
        if let Some((_, file)) = kept.as_ref().filter(|(of, _)| *of == arena) {
            return Ok(WrittenArena { file: Arc::clone(file), offset: 0 });
        }
        let access = OFlags::RDWR | OFlags::CLOEXEC;
        let file = Arc::new(rustix::fs::openat(folder, arena_path(arena), access, Mode::empty())?);
        *kept = Some((arena, Arc::clone(&file)));
        Ok(WrittenArena { file, offset: 0 })
    }
}

/// Whether a file cannot be opened for want of descriptors or memory. The disk is not to blame, and stores to the
/// mapping reach it. A disk that is gone is another matter: the kernel's pages still take stores, and lose them.
pub(crate) fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

fn open_folder(tier: &Path) -> Result<OwnedFd, Error> {
    rustix::fs::open(tier, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(Error::errno("open the folder of arenas"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::StoreId;
    use std::os::fd::AsFd;

    fn tier(path: &Path, holds: &str) {
        std::fs::create_dir_all(path.join("arenas")).unwrap();
        (0..KEPT as u32 + 1)
            .for_each(|arena| std::fs::write(path.join(arena_path(ArenaId(arena))), holds).unwrap());
    }

    fn open(tier: &Path) -> WrittenArenas {
        let geometry = Geometry::default();
        let parts = Parts::open(tier, StoreId([0; 16]), &geometry).unwrap();
        WrittenArenas::open(&parts, geometry).unwrap()
    }

    fn read(arena: Result<WrittenArena, Errno>) -> String {
        let mut bytes = [0; 3];
        rustix::io::pread(arena.unwrap().file.as_fd(), &mut bytes[..], 0).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn arenas_of_another_store_that_has_the_name_now_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (named, moved) = (folder.path().join("store"), folder.path().join("moved"));
        tier(&named, "old");
        let files = open(&named);
        std::fs::rename(&named, &moved).unwrap();
        tier(&named, "new");
        assert_eq!(read(files.file(ArenaId(0))), "old");
        std::fs::remove_dir_all(&moved).unwrap();
        assert_eq!(files.file(ArenaId(1)).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn of_two_arenas_with_one_place_each_has_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        tier(folder.path(), "old");
        let last = ArenaId(KEPT as u32);
        std::fs::write(folder.path().join(arena_path(last)), "end").unwrap();
        let files = open(folder.path());
        for _ in 0..2 {
            assert_eq!(read(files.file(ArenaId(0))), "old");
            assert_eq!(read(files.file(last)), "end");
        }
    }
}
