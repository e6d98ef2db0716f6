//! Locks on bytes of a file, as marks that the kernel keeps: one lives as long as the open file description it
//! was set on, in any process that has descriptors of it, and goes with the last of them however it goes.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::ops::Range;

/// Marks the bytes, as a shared lock; others may do so, too. The file must be open for reading.
pub fn mark(file: impl AsFd, range: Range<u64>) -> Result<(), Errno> {
    control(file.as_fd(), libc::F_OFD_SETLK, &mut lock(libc::F_RDLCK, range))
}

/// Makes the bytes this description's alone, unless another one has marked some of them. The file must be open for writing.
pub fn claim(file: impl AsFd, range: Range<u64>) -> Result<(), Errno> {
    control(file.as_fd(), libc::F_OFD_SETLK, &mut lock(libc::F_WRLCK, range))
}

/// Some bytes in a range that are marked or claimed, by another open file description than `file` is.
pub fn marked(file: impl AsFd, range: Range<u64>) -> Result<Option<Range<u64>>, Errno> {
    in_the_way(file, libc::F_WRLCK, range)
}

/// Some bytes in a range that are claimed, by another open file description than `file` is.
pub fn claimed(file: impl AsFd, range: Range<u64>) -> Result<Option<Range<u64>>, Errno> {
    in_the_way(file, libc::F_RDLCK, range)
}

fn in_the_way(file: impl AsFd, kind: i32, range: Range<u64>) -> Result<Option<Range<u64>>, Errno> {
    let mut lock = lock(kind, range);
    control(file.as_fd(), libc::F_OFD_GETLK, &mut lock)?;
    if lock.l_type == libc::F_UNLCK as i16 {
        return Ok(None);
    }
    let start = lock.l_start.unsigned_abs();
    let end = if lock.l_len == 0 { u64::MAX } else { start.saturating_add(lock.l_len.unsigned_abs()) };
    Ok(Some(start..end))
}

/// A range whose end is beyond what files have reaches to the end of all.
fn lock(kind: i32, range: Range<u64>) -> libc::flock {
    let start = i64::try_from(range.start).unwrap_or(i64::MAX);
    let len = i64::try_from(range.end).map_or(0, |end| end.saturating_sub(start));
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: start, l_len: len, l_pid: 0 }
}

/// rustix knows no locks of ranges. libc's `fcntl` may be a door's: that passes on what is not the application's.
fn control(file: BorrowedFd<'_>, command: i32, lock: &mut libc::flock) -> Result<(), Errno> {
    // SAFETY: the kernel reads and writes the one structure it is given, which outlives the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) } == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_mark_lives_as_long_as_any_copy_of_its_description() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::open(folder.path()).unwrap();
        let (looking, marking) = (open(), open());
        assert_eq!(marked(&looking, 0..u64::MAX), Ok(None));
        mark(&marking, 1 << 40..(1 << 40) + 1).unwrap();
        assert_eq!(marked(&looking, 0..u64::MAX), Ok(Some(1 << 40..(1 << 40) + 1)));
        assert_eq!(marked(&looking, 0..1 << 40), Ok(None));
        assert_eq!(marked(&marking, 0..u64::MAX), Ok(None), "its own do not count");
        let copy = marking.try_clone().unwrap();
        drop(marking);
        assert_eq!(marked(&looking, 1 << 40..u64::MAX), Ok(Some(1 << 40..(1 << 40) + 1)));
        drop(copy);
        assert_eq!(marked(&looking, 0..u64::MAX), Ok(None));
    }
}
