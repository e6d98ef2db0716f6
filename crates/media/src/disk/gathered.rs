//! Writes by calls straight from memory of the application: one copy, made by the kernel.
//!
//! The calls are made here, because libc's way to the kernel may be a door's. The kernel only reads the memory it is given:
//! an address that is not mapped is EFAULT.

use crate::copying::user_copy::{Fault, UserSlice};
use crate::recorder;
use cuesta_format::Medium;
use rustix::fd::{AsRawFd as _, BorrowedFd};
use rustix::io::Errno;
use syscalls::{Sysno, raw_syscall};

/// Pieces that one call takes (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

/// `struct iovec`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Piece {
    start: *const u8,
    bytes: usize,
}

/// Why not all was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// The application's memory could not be read.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The file did not take it.
    #[error("the file is not written: {0}")]
    Refused(Errno),
}

/// Writes the bytes of `parts` to a file of `medium` that holds as many there.
pub fn write_gathered(
    file: BorrowedFd<'_>,
    offset: u64,
    medium: Medium,
    parts: &[UserSlice<'_>],
) -> Result<(), GatherError> {
    let mut pieces: Vec<Piece> =
        parts.iter().map(|part| Piece { start: part.as_ptr(), bytes: part.len() }).collect();
    let mut rest = &mut pieces[..];
    let mut written = 0;
    loop {
        let empty = rest.iter().take_while(|piece| piece.bytes == 0).count();
        rest = &mut rest[empty..];
        if rest.is_empty() {
            recorder::on_gathered(file, offset, written, medium);
            return Ok(());
        }
        match write_some(file, offset + written as u64, rest) {
            Ok(0) => return Err(GatherError::Refused(Errno::NOSPC)),
            Ok(mut count) => {
                written += count;
                for piece in rest.iter_mut() {
                    let taken = count.min(piece.bytes);
                    (piece.start, piece.bytes) = (piece.start.wrapping_add(taken), piece.bytes - taken);
                    count -= taken;
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::FAULT) => return Err(Fault { copied: written }.into()),
            Err(errno) => return Err(GatherError::Refused(errno)),
        }
    }
}

fn write_some(file: BorrowedFd<'_>, offset: u64, pieces: &[Piece]) -> Result<usize, Errno> {
    let count = pieces.len().min(PIECES_MAX);
    // SAFETY: the kernel only reads what the pieces name, or says that it cannot; the list itself is ours. The last
    // argument is the high half of the offset on a machine of 32 bits, and nothing on others.
    let result = unsafe {
        raw_syscall!(Sysno::pwritev, file.as_raw_fd(), pieces.as_ptr(), count, offset, offset >> 32)
    };
    match usize::try_from(result as isize) {
        Ok(written) => Ok(written),
        Err(_) => Err(Errno::from_raw_os_error(-(result as isize) as i32)),
    }
}

/// Has the disk take everything that was written to a file.
pub fn flush_file(file: BorrowedFd<'_>) -> Result<(), Errno> {
    loop {
        match rustix::fs::fdatasync(file) {
            Err(Errno::INTR) => {}
            flushed => {
                flushed?;
                recorder::record_file_sync(file);
                return Ok(());
            }
        }
    }
}

/// Has the disk take a part of a file, without its cache being written: a flush that follows finds nothing of it to write. Where the
/// kernel cannot do that, the flush does it all. An error means that the disk did not take something. The kernel tells it once, and
/// the flush does not hear of it.
pub fn write_back(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<(), Errno> {
    let all =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: only numbers go to the kernel; no byte changes.
    let result = unsafe { raw_syscall!(Sysno::sync_file_range, file.as_raw_fd(), offset, bytes, all) };
    match -(result as isize) as i32 {
        number @ (libc::EIO | libc::ENOSPC | libc::EDQUOT) => Err(Errno::from_raw_os_error(number)),
        _ => Ok(()),
    }
}

/// Asks the disk to take a part of a file, and does not wait.
pub fn begin_write_back(file: BorrowedFd<'_>, offset: u64, bytes: u64) {
    // SAFETY: only numbers go to the kernel; no byte changes.
    let _ = unsafe {
        raw_syscall!(Sysno::sync_file_range, file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE)
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn all_pieces_are_written_one_behind_the_other() {
        let file = tempfile::tempfile().unwrap();
        let parts: Vec<Vec<u8>> =
            (0..3000u32).map(|number| vec![number as u8; number as usize % 5]).collect();
        let slices: Vec<UserSlice<'_>> = parts.iter().map(|part| UserSlice::from(&part[..])).collect();
        write_gathered(file.as_fd(), 100, Medium::Memory, &slices).unwrap();
        let all = parts.concat();
        let mut found = vec![0; all.len()];
        file.read_exact_at(&mut found, 100).unwrap();
        assert_eq!(found, all);
    }

    #[test]
    fn memory_that_is_not_there_is_a_fault() {
        let file = tempfile::tempfile().unwrap();
        let good = [7; 4096];
        // SAFETY: the range is not mapped: the kernel says so.
        let bad = unsafe { UserSlice::new(std::ptr::without_provenance(4096), 10) };
        let refused = write_gathered(file.as_fd(), 0, Medium::Memory, &[UserSlice::from(&good[..]), bad]);
        assert!(matches!(refused, Err(GatherError::Fault(_))), "{refused:?}");
    }
}
