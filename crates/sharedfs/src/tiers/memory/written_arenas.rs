//! Files of the arenas that content is written to by calls: those of medium `block` ([`SharedMemory::write_by_calls`]).
//!
//! Some stay open; a disk may have more arenas than a process may have descriptors. All are looked for in the
//! folder that was the tier's when it was opened. Another store may have its name by now, and its arenas are not to
//! be written.
//!
//! [`SharedMemory::write_by_calls`]: cuesta_media::SharedMemory::write_by_calls

use crate::Error;
use cuesta_format::ArenaId;
use cuesta_format::geometry::arena_path;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// So many stay open, each in the place its number has among them.
const KEPT: usize = 64;

type OpenArena = Mutex<Option<(ArenaId, Arc<OwnedFd>)>>;

/// The files of a tier's arenas.
#[derive(Debug)]
pub(crate) struct WrittenArenas {
    tier: OwnedFd,
    kept: [OpenArena; KEPT],
}

impl WrittenArenas {
    pub(crate) fn open(tier: &Path) -> Result<WrittenArenas, Error> {
        let tier = rustix::fs::open(tier, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(Error::errno("open the folder of arenas"))?;
        Ok(WrittenArenas { tier, kept: std::array::from_fn(|_| Mutex::default()) })
    }

    /// An arena's file; `None` where it cannot be opened, as when there are no descriptors: then it is stored to.
    pub(crate) fn file(&self, arena: ArenaId) -> Option<Arc<OwnedFd>> {
        let mut kept = self.kept[arena.index() as usize % KEPT].lock();
        if let Some((_, file)) = kept.as_ref().filter(|(of, _)| *of == arena) {
            return Some(Arc::clone(file));
        }
        let access = OFlags::RDWR | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat(&self.tier, arena_path(arena), access, Mode::empty()).ok().map(Arc::new);
        *kept = file.clone().map(|file| (arena, file));
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn tier(path: &Path, holds: &str) {
        std::fs::create_dir_all(path.join("arenas")).unwrap();
        (0..KEPT as u32 + 1)
            .for_each(|arena| std::fs::write(path.join(arena_path(ArenaId(arena))), holds).unwrap());
    }

    fn read(file: Option<Arc<OwnedFd>>) -> String {
        let mut bytes = [0; 3];
        rustix::io::pread(file.unwrap().as_fd(), &mut bytes[..], 0).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn arenas_of_another_store_that_has_the_name_now_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (named, moved) = (folder.path().join("store"), folder.path().join("moved"));
        tier(&named, "old");
        let files = WrittenArenas::open(&named).unwrap();
        std::fs::rename(&named, &moved).unwrap();
        tier(&named, "new");
        assert_eq!(read(files.file(ArenaId(0))), "old");
        std::fs::remove_dir_all(&moved).unwrap();
        assert!(files.file(ArenaId(1)).is_none());
    }

    #[test]
    fn of_two_arenas_with_one_place_each_has_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        tier(folder.path(), "old");
        let last = ArenaId(KEPT as u32);
        std::fs::write(folder.path().join(arena_path(last)), "end").unwrap();
        let files = WrittenArenas::open(folder.path()).unwrap();
        for _ in 0..2 {
            assert_eq!(read(files.file(ArenaId(0))), "old");
            assert_eq!(read(files.file(last)), "end");
        }
    }
}
