//! A stamp behind an arena's content says in which opening of the store it was last written. So an old copy
//! of the arena's file is told, although its checksums are all right.
//!
//! The first write to an arena in an opening stamps it, and the digest that did so notes the opening in the
//! metadata. An arena whose stamp is of an earlier opening than the metadata says is an old copy. One that says
//! another number, or another store, lies in the wrong place. One without a stamp is of a store of before, or was
//! damaged there, and is taken as it is. Only in stores with checksums of content on medium `block`.

use super::written_arenas::WrittenArenas;
use crate::Error;
use cuesta_format::geometry::arena_path;
use cuesta_format::stamp::{Misplaced, STAMP_BYTES, Stamp};
use cuesta_format::superblock::Opening;
use cuesta_format::{ArenaId, Geometry, StoreId};
use cuesta_media::recorder;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The arenas that were stamped in this opening.
#[derive(Debug)]
pub(crate) struct ArenaStamps {
    store: StoreId,
    generation: u64,
    /// Where in an arena's file its stamp lies.
    offset: u64,
    stamped: Mutex<Stamped>,
}

#[derive(Debug, Default)]
struct Stamped {
    all: BTreeSet<ArenaId>,
    /// Those that the metadata does not know of yet.
    new: BTreeSet<ArenaId>,
}

impl ArenaStamps {
    pub(crate) fn new(store: StoreId, generation: u64, geometry: &Geometry) -> ArenaStamps {
        let offset = geometry.arena_file_bytes();
        ArenaStamps { store, generation, offset, stamped: Mutex::default() }
    }

    /// An arena is about to be written. Where it cannot be stamped now, as on a full disk, it is stamped another time.
    pub(crate) fn note(&self, arena: ArenaId, files: &WrittenArenas) {
        let mut stamped = self.stamped.lock();
        if stamped.all.contains(&arena) {
            return;
        }
        let Ok(written) = files.file(arena) else { return };
        if self.put(&written.file, arena).is_ok() {
            stamped.all.insert(arena);
            stamped.new.insert(arena);
        }
    }

    /// Writes the stamp of an arena durably, and as the crash explorer sees it.
    fn put(&self, file: &OwnedFd, arena: ArenaId) -> io::Result<()> {
        let bytes = stamp(self.store, arena, self.generation).encode();
        let end = self.offset + bytes.len() as u64;
        if rustix::fs::fstat(file)?.st_size.unsigned_abs() < end {
            rustix::fs::ftruncate(file, end)?;
            recorder::record_file_length(file.as_fd(), end);
        }
        if rustix::io::pwrite(file, &bytes, self.offset)? != bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        recorder::record_file_write(file.as_fd(), self.offset, &bytes);
        rustix::fs::fdatasync(file)?;
        recorder::record_file_sync(file.as_fd());
        Ok(())
    }

    /// Those stamped since the last time, and the opening.
    pub(crate) fn take_new(&self) -> (BTreeSet<ArenaId>, u64) {
        (std::mem::take(&mut self.stamped.lock().new), self.generation)
    }
}

fn stamp(store: StoreId, arena: ArenaId, generation: u64) -> Stamp {
    Stamp { store, what: arena.0, opening: Opening { generation, is_closed: false } }
}

/// Whether an arena's file is the one that belongs there, of which the metadata says in which opening it was last written.
pub(crate) fn judge(
    tier: &Path,
    geometry: &Geometry,
    store: StoreId,
    arena: ArenaId,
    written_in: u64,
) -> Result<(), Misplaced> {
    let mut bytes = [0; STAMP_BYTES];
    let read = File::open(tier.join(arena_path(arena)))
        .and_then(|file| file.read_exact_at(&mut bytes, geometry.arena_file_bytes()));
    let Some(found) = read.ok().and_then(|()| Stamp::decode(&bytes)) else { return Ok(()) };
    // A crash may have come between the stamp and the metadata, at any number of openings.
    let newest = found.opening.generation.max(written_in);
    found.judge(store, arena.0, Opening { generation: newest, is_closed: false })
}

/// Writes the stamp of an arena that was made anew, or lost its checksums.
pub(crate) fn write(
    file: &File,
    geometry: &Geometry,
    store: StoreId,
    arena: ArenaId,
    generation: u64,
) -> Result<(), Error> {
    let bytes = stamp(store, arena, generation).encode();
    file.write_all_at(&bytes, geometry.arena_file_bytes()).map_err(Error::io("stamp an arena"))
}
