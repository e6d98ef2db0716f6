//! A disk without a file system (a block device), as a lower tier: a label, then arenas side by side.
//!
//! The label is a [`Stamp`] in the first block, as a folder has it in a file. The daemon has the device for itself
//! (O_EXCL): the kernel refuses one that is mounted.

use super::part::Part;
use crate::Error;
use cuesta_format::stamp::{STAMP_BYTES, Stamp};
use cuesta_format::{ArenaId, Geometry};
use cuesta_media::discard;
use rustix::fs::{FileType, Mode, OFlags};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes before the first arena. So much is zero on a disk that holds nothing.
const LABEL_ROOM: u64 = 1 << 20;

/// An open disk, with the arenas on it.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    file: Arc<OwnedFd>,
    /// How many arenas there are.
    arenas: AtomicU32,
}

/// Whether a path names a block device.
pub(crate) fn is_disk(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice)
}

/// Opens a disk that is in no other use.
fn open(path: &Path) -> io::Result<OwnedFd> {
    let access = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, access, Mode::empty())?)
}

fn read_at(file: &OwnedFd, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    match rustix::io::pread(file, &mut *bytes, offset)? {
        read if read == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Bytes that arenas may have of a disk.
pub fn room_on_disk(path: &Path) -> io::Result<u64> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?.saturating_sub(LABEL_ROOM))
}

/// Whether the beginning of a disk is zero, where file systems and partition tables say what they are.
pub fn is_empty_disk(path: &Path) -> io::Result<bool> {
    let file = open(path)?;
    let mut bytes = vec![0; LABEL_ROOM as usize];
    read_at(&file, 0, &mut bytes)?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// Writes the label; `None` takes it away.
pub(crate) fn label_disk(path: &Path, label: Option<&Stamp>) -> io::Result<()> {
    let file = open(path)?;
    let bytes = label.map_or([0; STAMP_BYTES], Stamp::encode);
    match rustix::io::pwrite(&file, &bytes, 0)? {
        STAMP_BYTES => Ok(rustix::fs::fsync(&file)?),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// The disk need not keep what it holds behind the label. Not every disk can do that.
pub(crate) fn discard_disk(path: &Path) {
    let Ok(bytes) = room_on_disk(path) else { return };
    if let Ok(file) = open(path) {
        let _ = discard(file.as_fd(), LABEL_ROOM, bytes);
    }
}

/// The label.
pub(crate) fn label_of_disk(path: &Path) -> io::Result<[u8; STAMP_BYTES]> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = [0; STAMP_BYTES];
    read_at(&file, 0, &mut bytes)?;
    Ok(bytes)
}

impl Disk {
    /// Opens a disk on which there are so many arenas.
    pub(crate) fn open(path: &Path, arenas: u32) -> Result<Disk, Error> {
        let file = open(path).map_err(Error::io("open the disk"))?;
        Ok(Disk { path: path.to_owned(), file: Arc::new(file), arenas: AtomicU32::new(arenas) })
    }

    /// The disk's file.
    pub(crate) fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Whether an arena is there.
    pub(crate) fn has(&self, arena: ArenaId) -> bool {
        arena.index() < self.arenas.load(Ordering::Relaxed)
    }

    /// Where an arena begins.
    pub(crate) fn offset(&self, arena: ArenaId, geometry: &Geometry) -> u64 {
        LABEL_ROOM + u64::from(arena.index()) * geometry.arena_file_bytes()
    }

    /// Adds an arena, which holds whatever lies there.
    pub(crate) fn make(&self, arena: ArenaId, geometry: &Geometry) -> Result<Part, Error> {
        let part = self.part(arena, geometry, OFlags::RDWR)?;
        let end = rustix::fs::seek(&*self.file, rustix::fs::SeekFrom::End(0))
            .map_err(Error::errno("find the end of the disk"))?;
        if part.offset + part.bytes > end {
            return Err(Error::NoSpace);
        }
        self.arenas.fetch_max(arena.index() + 1, Ordering::Relaxed);
        Ok(part)
    }

    /// An arena, to read, or to write as well.
    pub(crate) fn part(&self, arena: ArenaId, geometry: &Geometry, access: OFlags) -> Result<Part, Error> {
        let file = match access {
            OFlags::RDONLY => {
                let file = rustix::fs::open(&self.path, access | OFlags::CLOEXEC, Mode::empty())
                    .map_err(Error::errno("open the disk"))?;
                Arc::new(file)
            }
            _ => Arc::clone(&self.file),
        };
        Ok(Part { file, offset: self.offset(arena, geometry), bytes: geometry.arena_file_bytes() })
    }
}
