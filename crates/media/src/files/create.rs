//! Files of a store: making one whole or not at all, sizing it, removing it.
//!
//! The file does not know mappings: see `memory`.

use super::device;
use crate::disk::called;
use crate::error::MediaError;
use crate::recorder;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags};
use std::io;
use std::path::Path;

/// The ending of a file's name until the file is whole; a maker that was killed leaves one such, see [`create_allocated`].
pub const UNFINISHED_EXTENSION: &str = "unfinished";

/// Creates a file of allocated zeros (mode 0600) that survives a crash from then on, its name included. It has its
/// name only once it is whole: a process that is killed in the middle, or finds no room, leaves no part of it under `path`.
pub fn create_allocated(path: &Path, len: u64) -> Result<OwnedFd, MediaError> {
    create_whole(path, |file| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len)
            .map_err(MediaError::system("allocate file"))
    })
}

/// Creates a file of `len` zeros (mode 0600) that takes no room yet, whole and durably as [`create_allocated`]: it
/// gets its room step by step, see [`crate::Mapping::provide`].
pub fn create_sparse(path: &Path, len: u64) -> Result<OwnedFd, MediaError> {
    create_whole(path, |file| rustix::fs::ftruncate(file, len).map_err(MediaError::system("size new file")))
}

/// Creates a file of zeros as [`create_allocated`], for medium `block`: the disk has written all of it, so that what is stored
/// there later is written where it lies, and needs no change of the file's own description.
pub fn create_written(path: &Path, len: u64) -> Result<OwnedFd, MediaError> {
    create_whole(path, |file| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len)
            .map_err(MediaError::system("allocate file"))?;
        called::write_zeros(file.as_fd(), 0, len)
    })
}

/// Gives a file that was cut short its length again, with zeros on the medium where it lacks them: processes that have it mapped find them there.
/// Says whether it was short.
pub fn lengthen(file: impl AsFd, len: u64) -> Result<bool, MediaError> {
    let found = file_len(file.as_fd())?;
    if found >= len {
        return Ok(false);
    }
    called::write_zeros(file.as_fd(), found, len - found)?;
    rustix::fs::fsync(&file).map_err(MediaError::system("sync lengthened file"))?;
    recorder::on_set_len(file.as_fd(), len);
    Ok(true)
}

/// Creates a file (mode 0600) that is what `size` makes of it, whole and durably as [`create_allocated`].
pub fn create_whole(
    path: &Path,
    size: impl FnOnce(&OwnedFd) -> Result<(), MediaError>,
) -> Result<OwnedFd, MediaError> {
    let unfinished = path.with_extension(UNFINISHED_EXTENSION);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = rustix::fs::open(&unfinished, flags, Mode::RUSR | Mode::WUSR)
        .map_err(MediaError::system("create file"))?;
    recorder::on_create(file.as_fd());
    let finished = size(&file)
        .and_then(|()| rustix::fs::fsync(&file).map_err(MediaError::system("sync new file")))
        .and_then(|()| {
            recorder::on_set_len(file.as_fd(), file_len(file.as_fd())?);
            rustix::fs::renameat_with(CWD, &unfinished, CWD, path, RenameFlags::NOREPLACE)
                .map_err(MediaError::system("create file"))
        });
    if let Err(error) = finished {
        // The error to report is the first one; a file left behind is replaced by the next one.
        let _ = remove(&unfinished);
        return Err(error);
    }
    recorder::on_rename(file.as_fd());
    if let Err(error) = sync_parent(path) {
        // Left behind, it would be in the way of the next one of that name.
        let _ = remove(path);
        return Err(error);
    }
    Ok(file)
}

/// Removes a file. Processes that have it open or mapped keep it. The removal is durable once its folder is synced.
pub fn remove(path: &Path) -> io::Result<()> {
    rustix::fs::unlink(path)?;
    recorder::on_remove(path);
    Ok(())
}

/// Gives a part of a file its room on the medium, durably. Bytes that had room keep it, and no byte changes. A device has all of its room.
pub(crate) fn allocate(file: impl AsFd, offset: u64, len: u64) -> Result<(), MediaError> {
    if device::is_of_bytes(file.as_fd())? {
        return Ok(());
    }
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, offset, len)
        .map_err(MediaError::system("allocate file"))?;
    rustix::fs::fsync(&file).map_err(MediaError::system("sync allocated file"))
}

/// Makes the name of a file durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), MediaError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory =
        rustix::fs::open(parent, flags, Mode::empty()).map_err(MediaError::system("open directory"))?;
    rustix::fs::fsync(&directory).map_err(MediaError::system("sync directory"))
}

pub(crate) fn file_len(file: BorrowedFd<'_>) -> Result<u64, MediaError> {
    let stat = rustix::fs::fstat(file).map_err(MediaError::system("examine file"))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => device::len(stat.st_rdev),
        // The size of a disk is where its end is. Nothing here reads or writes by the file's own offset.
        FileType::BlockDevice => {
            rustix::fs::seek(file, rustix::fs::SeekFrom::End(0)).map_err(MediaError::system("examine disk"))
        }
        _ => Ok(stat.st_size as u64),
    }
}
