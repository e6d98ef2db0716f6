//! Files in mapped mode: each is a file of the kernel's, which all processes map that may, so that all see one memory.
//!
//! Such a file is in use as long as a program, or a session for it, has it mapped, and however that
//! ends. So that SharedFS sees this, each process maps an open file description of its own with a mark on it: a mapping keeps its
//! description, and the description keeps the mark ([`crate::files::byte_locks`]). A process that wants the file for itself claims the
//! marked byte, which fails while there are marks.

use super::byte_locks;
use crate::files::owner_rights::as_owner;
use crate::recorder;
use cuesta_format::geometry::MAPPED_FOLDER;
use cuesta_format::{InodeNumber, Medium};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Dir, FallocateFlags, Mode, OFlags, SeekFrom, Stat, fallocate, fstat, fsync, ftruncate, mkdirat,
    openat, seek, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::thread::sched_yield;
use std::ffi::c_void;
use std::ops::Range;

/// How often one is asked for that is about to be taken away.
const ATTEMPTS: usize = 10_000;
/// The byte that is marked: behind whatever a file can hold.
const MARK: Range<u64> = (1 << 62)..(1 << 62) + 1;
/// The bytes that a pin maps.
const PAGE_BYTES: usize = 4096;
/// Cleared at once.
const CLEARED_BYTES: u64 = 64 << 20;
/// Files are their owner's alone: a process without a session gets them from no process.
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);

/// Keeps a file in mapped mode while it lives, in this process or in a child that inherited it.
#[derive(Debug)]
pub struct Pin {
    page: *mut c_void,
}

// SAFETY: nothing is ever read or written by way of the page, which allows no access.
unsafe impl Send for Pin {}
// SAFETY: as above.
unsafe impl Sync for Pin {}

impl Pin {
    /// Keeps a file that was opened by [`open_marked`].
    pub fn new(file: impl AsFd) -> Result<Pin, Errno> {
        // SAFETY: a new mapping, at a place the kernel chooses.
        let page = unsafe {
            mmap(std::ptr::null_mut(), PAGE_BYTES, ProtFlags::empty(), MapFlags::SHARED, file.as_fd(), 0)?
        };
        Ok(Pin { page })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, here or in the parent before a fork, and only this value knows of it.
        let _ = unsafe { munmap(self.page, PAGE_BYTES) };
    }
}

fn path(inode: InodeNumber) -> String {
    format!("{MAPPED_FOLDER}/{}", inode.0)
}

/// Makes the folder for them in the folder of lock files, if there is none.
pub fn make_folder(references: impl AsFd) -> Result<(), Errno> {
    match mkdirat(references, MAPPED_FOLDER, FOLDER_MODE) {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}

/// Makes the file, empty, whatever was there.
pub fn create(references: impl AsFd, inode: InodeNumber) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = as_owner(&references, || openat(&references, path(inode), flags, FILE_MODE))?;
    recorder::on_create(file.as_fd());
    Ok(file)
}

/// Opens the file, for a process that has pinned it; `None`: there is none.
pub fn open(references: impl AsFd, inode: InodeNumber) -> Result<Option<OwnedFd>, Errno> {
    open_as(references, inode, OFlags::RDWR)
}

fn open_as(references: impl AsFd, inode: InodeNumber, access: OFlags) -> Result<Option<OwnedFd>, Errno> {
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match as_owner(&references, || openat(&references, path(inode), flags, Mode::empty())) {
        Err(Errno::NOENT) => Ok(None),
        file => file.map(Some),
    }
}

/// Opens the file with a mark, to be read or also written through mappings; `None`: there is none, or not any more.
pub fn open_marked(
    references: impl AsFd,
    inode: InodeNumber,
    writes: bool,
) -> Result<Option<OwnedFd>, Errno> {
    let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
    for _ in 0..ATTEMPTS {
        let Some(file) = open_as(&references, inode, access)? else { return Ok(None) };
        match byte_locks::mark(&file, MARK) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                sched_yield();
                continue;
            }
            Err(errno) => return Err(errno),
        }
        return Ok((fstat(&file)?.st_nlink > 0).then_some(file));
    }
    Err(Errno::AGAIN)
}

/// Opens the file for its own as long as the descriptor lives; `None`: another process has it.
pub fn claim(references: impl AsFd, inode: InodeNumber) -> Result<Option<OwnedFd>, Errno> {
    let file = open(references, inode)?.ok_or(Errno::NOENT)?;
    match byte_locks::claim(&file, MARK) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Size, blocks and times of the file.
pub fn stat(references: impl AsFd, inode: InodeNumber) -> Result<Stat, Errno> {
    as_owner(&references, || statat(&references, path(inode), AtFlags::SYMLINK_NOFOLLOW))
}

/// Whether the file has memory for the page that `offset` is in.
pub fn has_page(file: impl AsFd, offset: u64) -> Result<bool, Errno> {
    let found = fstat(&file)?;
    let size = found.st_size.unsigned_abs();
    if offset >= size.next_multiple_of(PAGE_BYTES as u64) {
        return Ok(false);
    }
    // Of a page behind the end nothing is told.
    let page = (offset - offset % PAGE_BYTES as u64).min(size.saturating_sub(1));
    match seek(file, SeekFrom::Data(page)) {
        Ok(data) => Ok(data == page),
        Err(Errno::NXIO) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Clears what mappings may have stored behind the file's end, if it is about to end behind `end`: that is no content.
pub fn clear_behind_end(file: impl AsFd, end: u64) -> Result<(), Errno> {
    let size = fstat(&file)?.st_size.unsigned_abs();
    let page_end = size.next_multiple_of(PAGE_BYTES as u64);
    if size >= end || size == page_end {
        return Ok(());
    }
    punch(file, size, page_end - size)
}

/// Reads at `offset`; says how many bytes there were.
pub fn read(file: impl AsFd, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let count = rustix::io::pread(&file, &mut *bytes, offset)?;
    recorder::record_file_read(&file, offset, count);
    Ok(count)
}

/// Writes at `offset`; says how many bytes. Bytes within one page are written whole.
pub fn write(file: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    let count = rustix::io::pwrite(&file, bytes, offset)?;
    recorder::on_write_pages(file.as_fd(), offset, &bytes[..count]);
    Ok(count)
}

/// Sets the size.
pub fn set_size(file: impl AsFd, size: u64) -> Result<(), Errno> {
    ftruncate(&file, size)?;
    recorder::on_set_len(file.as_fd(), size);
    Ok(())
}

/// Gives a range memory. The file reaches to its end then, or, by `keep_size`, as far as before.
pub fn provide(file: impl AsFd, range: Range<u64>, keep_size: bool) -> Result<(), Errno> {
    let before = fstat(&file)?.st_size.unsigned_abs();
    let flags = if keep_size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
    fallocate(&file, flags, range.start, range.end - range.start)?;
    if !keep_size && before < range.end {
        recorder::on_set_len(file.as_fd(), range.end);
    }
    clear_provided(file, range);
    Ok(())
}

/// Clears memory that the kernel set aside and has not cleared. Until then the kernel calls it a hole, and a count of the memory that a
/// file still needs would count it twice. Where the clearing fails, the count does so.
fn clear_provided(file: impl AsFd, range: Range<u64>) {
    let mut at = range.start - range.start % PAGE_BYTES as u64;
    while at < range.end {
        let bytes = (range.end - at).min(CLEARED_BYTES) as usize;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place the kernel chooses.
        let place = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file.as_fd(), at) };
        let Ok(place) = place else { return };
        // SAFETY: of the mapping that was just made; the file's content stays as it is.
        let cleared = unsafe { madvise(place, bytes, Advice::LinuxPopulateWrite) };
        // SAFETY: made above, and only this function knows of it.
        let _ = unsafe { munmap(place, bytes) };
        if cleared.is_err() {
            return;
        }
        at += bytes as u64;
    }
}

/// Makes the changes by calls durable, and the length of the file. Only where the medium outlives the loss
/// of power is there anything to do. The owners of mappings sync their own stores.
pub fn settle(file: impl AsFd, medium: Medium) -> Result<(), Errno> {
    match medium {
        Medium::Memory => Ok(()),
        Medium::Pmem | Medium::Block => {
            fsync(&file)?;
            recorder::record_file_sync(file.as_fd());
            Ok(())
        }
    }
}

/// The same for the names of files that were made.
pub fn settle_names(references: impl AsFd, medium: Medium) -> Result<(), Errno> {
    match medium {
        Medium::Memory => Ok(()),
        Medium::Pmem | Medium::Block => fsync(open_folder(references)?),
    }
}

/// Makes a hole, leaving the size alone.
pub fn punch(file: impl AsFd, offset: u64, length: u64) -> Result<(), Errno> {
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)?;
    recorder::on_punch(file.as_fd(), offset, length);
    Ok(())
}

/// Where the next bytes from `offset` on lie that are no hole; `None`: there are none.
pub fn next_data(file: impl AsFd, offset: u64) -> Result<Option<Range<u64>>, Errno> {
    let start = match seek(&file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let end = seek(&file, SeekFrom::Hole(start))?;
    recorder::record_file_read(&file, offset, end.saturating_sub(offset) as usize);
    Ok(Some(start..end))
}

/// Removes the file; processes that have it mapped keep the memory. Says whether there was one.
pub fn remove(references: impl AsFd, inode: InodeNumber) -> Result<bool, Errno> {
    match unlinkat(&references, path(inode), AtFlags::empty()) {
        Ok(()) => {
            recorder::on_remove_in(references.as_fd(), &path(inode));
            Ok(true)
        }
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn open_folder(references: impl AsFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(references, MAPPED_FOLDER, flags, Mode::empty())
}

/// The inodes there are files for.
pub fn list(references: impl AsFd) -> Result<Vec<InodeNumber>, Errno> {
    let folder = open_folder(references)?;
    let mut found = Vec::new();
    for entry in Dir::new(folder)? {
        let name = entry?;
        found.extend(name.file_name().to_str().ok().and_then(|name| name.parse().ok()).map(InodeNumber));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const INODE: InodeNumber = InodeNumber(7);

    /// On a disk a file's blocks are more than its pages: there is its extent tree, too, and what lies behind its end.
    #[test]
    fn a_hole_is_no_page_however_many_blocks_the_file_takes() {
        const PAGES: u64 = 12;
        let file = tempfile::tempfile().unwrap();
        for page in 0..PAGES {
            rustix::io::pwrite(&file, &[1; PAGE_BYTES], page * PAGE_BYTES as u64).unwrap();
        }
        let end = PAGES * PAGE_BYTES as u64;
        fallocate(&file, FallocateFlags::KEEP_SIZE, end, end).unwrap();
        punch(&file, 5 * PAGE_BYTES as u64, PAGE_BYTES as u64).unwrap();
        let has: Vec<bool> =
            (0..PAGES).map(|page| has_page(&file, page * PAGE_BYTES as u64 + 1).unwrap()).collect();
        let expected: Vec<bool> = (0..PAGES).map(|page| page != 5).collect();
        assert_eq!(has, expected);
    }

    #[test]
    fn a_file_is_claimed_when_no_process_has_it_mapped() {
        let guard = tempfile::tempdir_in("/dev/shm").unwrap();
        let folder = File::open(guard.path()).unwrap();
        make_folder(&folder).unwrap();
        make_folder(&folder).unwrap();
        assert!(open_marked(&folder, INODE, true).unwrap().is_none());
        assert_eq!(claim(&folder, INODE).unwrap_err(), Errno::NOENT);
        drop(create(&folder, INODE).unwrap());
        assert_eq!(list(&folder), Ok(vec![INODE]));
        let file = open_marked(&folder, INODE, false).unwrap().unwrap();
        let (first, second) = (Pin::new(&file).unwrap(), Pin::new(&file).unwrap());
        drop(file);
        assert!(claim(&folder, INODE).unwrap().is_none());
        drop(first);
        assert!(claim(&folder, INODE).unwrap().is_none());
        drop(second);
        let claimed = claim(&folder, INODE).unwrap().unwrap();
        assert_eq!(remove(&folder, INODE), Ok(true));
        assert_eq!(remove(&folder, INODE), Ok(false));
        drop(claimed);
        assert!(open_marked(&folder, INODE, true).unwrap().is_none());
    }
}
