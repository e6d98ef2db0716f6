//! Files of the arenas that content is written to by calls: those of medium `block` ([`SharedMemory::write_by_calls`]).
//!
//! Some stay open; a disk may have more arenas than a process may have descriptors.
//!
//! [`SharedMemory::write_by_calls`]: cuesta_media::SharedMemory::write_by_calls

use cuesta_format::ArenaId;
use cuesta_format::geometry::arena_path;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// So many stay open, each in the place its number has among them.
const KEPT: usize = 64;

type Kept = Mutex<Option<(ArenaId, Arc<OwnedFd>)>>;

/// The files of a tier's arenas.
#[derive(Debug)]
pub(super) struct WrittenArenas {
    tier: PathBuf,
    kept: [Kept; KEPT],
}

impl WrittenArenas {
    pub(super) fn new(tier: &Path) -> WrittenArenas {
        WrittenArenas { tier: tier.to_owned(), kept: std::array::from_fn(|_| Mutex::default()) }
    }

    /// An arena's file; `None` where it cannot be opened, as when there are no descriptors: then it is stored to.
    pub(super) fn file(&self, arena: ArenaId) -> Option<Arc<OwnedFd>> {
        let mut kept = self.kept[arena.0 as usize % KEPT].lock();
        if let Some((_, file)) = kept.as_ref().filter(|(of, _)| *of == arena) {
            return Some(Arc::clone(file));
        }
        let path = self.tier.join(arena_path(arena));
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok().map(Arc::new);
        *kept = file.clone().map(|file| (arena, file));
        file
    }
}
