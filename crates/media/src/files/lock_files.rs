//! Lock files: making one and keeping it, seeing which processes have one, and removing unused ones.
//!
//! Their layout, and the protocol between makers and the remover, is in [`cuesta_format::control`].
//! At any time there is one remover, and any number of makers.
//!
//! Processes of other users get descriptors of lock files, to set locks by; of files they may only read, for reading. So the
//! files are their owner's alone: such a descriptor is not opened again for more by `/proc/self/fd`. A process that acts for
//! another user for a while, and may go back, acts as the folder's owner here.

use crate::files::byte_locks;
use crate::files::owner_rights::{as_owner, give_to_owner};
use cuesta_format::InodeNumber;
use cuesta_format::control::{
    MARKS_OFFSET, OPENER_MARK, PASSED_MARKS, PATH_SUFFIX, SERVED_MARK, WRITER_MARKS,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, SeekFrom, fchmod, fstat, ftruncate, openat, seek, statat};
use rustix::io::Errno;
use rustix::thread::sched_yield;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often one is asked for that is about to be taken away: that takes a moment.
const ATTEMPTS: usize = 10_000;

/// What [`seek_farthest`] found last: one process's lock files lie on one file system, mostly.
static LAST_FARTHEST: AtomicU64 = AtomicU64::new(0);

/// Other users' processes use what they are handed, and open nothing.
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
/// Bytes that are tried for a writer's mark: a byte that a reader has locked takes none.
const WRITER_ATTEMPTS: usize = 8;

/// How a file is open whose lock file is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To be read.
    Read,
    /// To be written, and perhaps read.
    Write,
    /// To be named (`O_PATH`).
    Path,
    /// To set locks of any kind. Openers for writing are known by other means.
    Locks,
}

/// What a mark of a descriptor says of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It is open.
    Opener,
    /// It is open for writing.
    Writer,
    /// SharedFS has it for processes it serves.
    Served,
    /// The description was sent under this number.
    Passed(u64),
}

impl Mark {
    /// The bytes where descriptions have it.
    fn bytes(self) -> Range<u64> {
        let first = match self {
            Mark::Opener => OPENER_MARK,
            Mark::Writer => return WRITER_MARKS,
            Mark::Served => SERVED_MARK,
            Mark::Passed(number) => PASSED_MARKS.saturating_add(number),
        };
        first..first.saturating_add(1)
    }

    /// Sets it on a description. A writer's is a byte of its own, locked exclusively, as no reader can: one who cannot get
    /// any, since readers are in the way, goes on without.
    fn set(self, file: impl AsFd) -> Result<(), Errno> {
        if self != Mark::Writer {
            return byte_locks::mark(file, self.bytes());
        }
        for _ in 0..WRITER_ATTEMPTS {
            let mut random = [0; 4];
            rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
            let first = WRITER_MARKS.start + u64::from(u32::from_ne_bytes(random));
            match byte_locks::claim(&file, first..first + 1) {
                Err(Errno::AGAIN | Errno::ACCESS) => {}
                claimed => return claimed,
            }
        }
        Ok(())
    }

    /// Whether another description than `file` has it.
    fn is_seen_by(self, file: impl AsFd) -> Result<bool, Errno> {
        match self {
            Mark::Writer => Ok(byte_locks::claimed(file, self.bytes())?.is_some()),
            _ => Ok(byte_locks::marked(file, self.bytes())?.is_some()),
        }
    }
}

fn name(inode: InodeNumber, is_path: bool) -> String {
    if is_path { format!("{}{PATH_SUFFIX}", inode.0) } else { inode.0.to_string() }
}

/// Opens the inode's lock file in `folder`, made if there is none, and marks it open. Code that knows nothing of all this
/// finds the offset as far away as one can be: it is told `EINVAL` when it reads or writes, or, where files do not reach so
/// far as offsets (ext4), `EFBIG` when it writes and, but for DAX, that nothing follows when it reads.
pub fn take(folder: impl AsFd, inode: InodeNumber, access: Access) -> Result<OwnedFd, Errno> {
    let name = name(inode, access == Access::Path);
    let mode = match access {
        Access::Write | Access::Locks => OFlags::RDWR,
        Access::Read | Access::Path => OFlags::RDONLY,
    };
    let flags = mode | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..ATTEMPTS {
        let file = match as_owner(&folder, || openat(&folder, &name, flags, FILE_MODE)) {
            // Root has made it, and is about to give it to its owner.
            Err(Errno::ACCESS) => {
                sched_yield();
                continue;
            }
            file => file?,
        };
        match Mark::Opener.set(&file) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                sched_yield();
                continue;
            }
            Err(errno) => return Err(errno),
        }
        let found = fstat(&file)?;
        if found.st_nlink == 0 {
            continue;
        }
        if Mode::from_raw_mode(found.st_mode) != FILE_MODE {
            // It was made under a umask, or by an earlier version. Another process of the owner's sees to that, too.
            let _ = fchmod(&file, FILE_MODE);
        }
        give_to_owner(&folder, &file, &found);
        if access == Access::Write {
            Mark::Writer.set(&file)?;
        }
        seek_farthest(&file)?;
        return Ok(file);
    }
    Err(Errno::AGAIN)
}

/// Seeks to the last offset that the file system has.
fn seek_farthest(file: &OwnedFd) -> Result<(), Errno> {
    let reaches = |offset: u64| match seek(file, SeekFrom::Start(offset)) {
        Ok(_) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
    };
    if reaches(i64::MAX as u64)? {
        return Ok(());
    }
    let last = LAST_FARTHEST.load(Ordering::Relaxed);
    if !reaches(last + 1)? && reaches(last)? {
        return Ok(());
    }
    let mut farthest = 0;
    for bit in (0..63).rev() {
        if reaches(farthest | 1 << bit)? {
            farthest |= 1 << bit;
        }
    }
    LAST_FARTHEST.store(farthest, Ordering::Relaxed);
    seek(file, SeekFrom::Start(farthest)).map(drop)
}

/// Adds a mark to a lock file that is open.
pub fn mark(file: impl AsFd, mark: Mark) -> Result<(), Errno> {
    mark.set(file)
}

/// Whether another description of the lock file has the mark.
pub fn has_other(file: impl AsFd, mark: Mark) -> Result<bool, Errno> {
    mark.is_seen_by(file)
}

/// Whether a process has the mark in a lock file of the inode. Opens and closes it: not for processes with record locks on it.
pub fn is_marked(folder: impl AsFd, inode: InodeNumber, mark: Mark) -> Result<bool, Errno> {
    for is_path in [false, true] {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || openat(&folder, name(inode, is_path), flags, Mode::empty());
        let file = match as_owner(&folder, open) {
            Err(Errno::NOENT) => continue,
            file => file?,
        };
        if mark.is_seen_by(&file)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether there is a lock file that might tell of an open file of the inode. Opens nothing.
#[must_use]
pub fn exists(folder: impl AsFd, inode: InodeNumber) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = as_owner(&folder, || statat(&folder, name(inode, false), flags));
    found.err() != Some(Errno::NOENT)
}

/// Whether `file` is a lock file of the inode in this folder.
#[must_use]
pub fn is_of(folder: impl AsFd, inode: InodeNumber, file: impl AsFd) -> bool {
    let Ok(file) = fstat(file) else { return false };
    [false, true].into_iter().any(|is_path| {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = as_owner(&folder, || statat(&folder, name(inode, is_path), flags));
        found.is_ok_and(|found| (found.st_dev, found.st_ino) == (file.st_dev, file.st_ino))
    })
}

/// The inodes that have lock files, with marks or without; `None`: more than `most`.
pub fn list(folder: impl AsFd, most: usize) -> Result<Option<Vec<InodeNumber>>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let Ok(inode) = name.trim_end_matches(PATH_SUFFIX).parse() else { continue };
        if found.len() == most {
            return Ok(None);
        }
        found.push(InodeNumber(inode));
    }
    Ok(Some(found))
}

/// Removes lock files without marks. Answers how many are left.
pub fn remove_unused(folder: impl AsFd) -> Result<usize, Errno> {
    let folder = folder.as_fd();
    let mut left = 0;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if entry.file_name().to_bytes().first().is_some_and(u8::is_ascii_digit)
            && !remove_if_unused(folder, entry.file_name())?
        {
            left += 1;
        }
    }
    Ok(left)
}

/// Says whether it is gone.
fn remove_if_unused(folder: BorrowedFd<'_>, name: &std::ffi::CStr) -> Result<bool, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(true),
        // Root has made it, and is about to give it to its owner.
        Err(Errno::ACCESS) => return Ok(false),
        file => file?,
    };
    match byte_locks::claim(&file, MARKS_OFFSET..u64::MAX) {
        Ok(()) => rustix::fs::unlinkat(folder, name, AtFlags::empty()).map(|()| true),
        Err(Errno::AGAIN | Errno::ACCESS) => {
            if fstat(&file)?.st_size != 0 {
                // Nothing of ours writes to one.
                ftruncate(&file, 0)?;
            }
            Ok(false)
        }
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::sync::atomic::AtomicBool;

    const INODE: InodeNumber = InodeNumber(7);

    fn folder() -> (tempfile::TempDir, File) {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let opened = File::open(folder.path()).unwrap();
        (folder, opened)
    }

    #[test]
    fn a_mark_is_seen_as_long_as_a_process_has_its_descriptor() {
        let (_guard, folder) = folder();
        let says = |mark| is_marked(&folder, INODE, mark).unwrap();
        assert!(!says(Mark::Opener) && !exists(&folder, INODE));
        let reader = take(&folder, INODE, Access::Read).unwrap();
        assert!(says(Mark::Opener) && !says(Mark::Writer));
        let writer = take(&folder, INODE, Access::Write).unwrap();
        mark(&writer, Mark::Passed(3)).unwrap();
        assert!(says(Mark::Writer) && says(Mark::Passed(3)) && !says(Mark::Passed(4)));
        let path = take(&folder, InodeNumber(9), Access::Path).unwrap();
        assert!(is_marked(&folder, InodeNumber(9), Mark::Opener).unwrap());
        assert!(is_of(&folder, INODE, &reader) && !is_of(&folder, INODE, &path));
        let copy = writer.try_clone().unwrap();
        drop((reader, writer));
        assert_eq!(remove_unused(&folder), Ok(2));
        assert_eq!(list(&folder, 1), Ok(None));
        assert!(says(Mark::Opener) && says(Mark::Writer) && says(Mark::Passed(3)));
        drop(copy);
        assert_eq!(remove_unused(&folder), Ok(1));
        assert!(!says(Mark::Opener) && !exists(&folder, INODE));
        assert_eq!(list(&folder, 1), Ok(Some(vec![InodeNumber(9)])));
    }

    #[test]
    fn a_reader_neither_says_that_it_writes_nor_keeps_a_writer_out() {
        let (_guard, folder) = folder();
        let says = |mark| is_marked(&folder, INODE, mark).unwrap();
        let reader = take(&folder, INODE, Access::Read).unwrap();
        assert!(mark(&reader, Mark::Writer).is_err());
        byte_locks::mark(&reader, MARKS_OFFSET..u64::MAX).unwrap();
        assert!(!says(Mark::Writer));
        let locks = take(&folder, INODE, Access::Locks).unwrap();
        assert!(!says(Mark::Writer), "it may set locks, and does not write");
        let writer = take(&folder, INODE, Access::Write).unwrap();
        drop((reader, writer));
        let writer = take(&folder, INODE, Access::Write).unwrap();
        assert!(says(Mark::Writer));
        drop((writer, locks));
        assert!(!says(Mark::Writer));
    }

    #[test]
    fn a_lock_file_is_its_owner_s_and_what_was_written_to_one_is_cut() {
        let (_guard, folder) = folder();
        let file = File::from(take(&folder, INODE, Access::Write).unwrap());
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o600);
        file.write_at(b"x", 5).unwrap();
        assert_eq!(remove_unused(&folder), Ok(1));
        assert_eq!(file.metadata().unwrap().len(), 0);
    }

    #[test]
    fn a_lock_file_is_neither_read_nor_written() {
        let (_guard, folder) = folder();
        // In memory, mostly, and on a disk, where files do not reach so far.
        let disk = tempfile::tempdir().unwrap();
        let disk = File::open(disk.path()).unwrap();
        for (folder, last) in [(&folder, 0), (&disk, 0), (&disk, 4096), (&folder, 4096)] {
            // Found on another file system.
            LAST_FARTHEST.store(last, Ordering::Relaxed);
            let file = File::from(take(folder, INODE, Access::Write).unwrap());
            let is_farthest = seek(&file, SeekFrom::Current(0)) == Ok(i64::MAX as u64);
            let written = std::io::Write::write(&mut &file, b"x").map_err(|error| error.raw_os_error());
            let read = std::io::Read::read(&mut &file, &mut [0]).map_err(|error| error.raw_os_error());
            let (invalid, too_far) = (Err(Some(libc::EINVAL)), Err(Some(libc::EFBIG)));
            assert_eq!(written, if is_farthest { invalid } else { too_far });
            assert!(read == invalid || !is_farthest && read == Ok(0), "{read:?}");
            assert_eq!(file.metadata().unwrap().len(), 0);
        }
        let reader = File::from(take(&folder, INODE, Access::Read).unwrap());
        assert!(reader.write_at(b"x", 0).is_err());
    }

    /// Two that lock one inode's file exclude each other, however often it is taken away.
    #[test]
    fn no_process_goes_on_with_a_lock_file_that_was_removed() {
        let (_guard, folder) = folder();
        let (held, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let remover = scope.spawn(|| {
                let mut removed = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    removed += u32::from(remove_unused(&folder).unwrap() == 0);
                }
                removed
            });
            let lockers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..4000 {
                            let file = take(&folder, INODE, Access::Write).unwrap();
                            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
                            assert!(!held.swap(true, Ordering::SeqCst), "two have it");
                            std::hint::spin_loop();
                            held.store(false, Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            let ended: Vec<bool> = lockers.into_iter().map(|locker| locker.join().is_ok()).collect();
            stop.store(true, Ordering::Relaxed);
            assert!(ended.iter().all(|ended| *ended) && remover.join().unwrap() > 0);
        });
    }
}
