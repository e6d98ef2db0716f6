//! Mapped files of medium `block` that are written by calls.
//!
//! A store through a mapping changes one page, but the kernel takes all of the folio for changed that it lies in: up to 2 MiB on
//! ext4 and XFS, which then go to the disk. A call changes the blocks it writes. Whoever has the file mapped sees both at once,
//! for there is one copy of it in the kernel's pages; and what is written is as durable as what is stored: behind a fence.

use crate::error::MediaError;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Writes all of it, or as much as the file takes: how much, and why not more.
pub(crate) fn write(file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> (usize, Result<(), Errno>) {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::pwrite(file, &bytes[written..], offset + written as u64) {
            Ok(0) => return (written, Err(Errno::NOSPC)),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(errno) => return (written, Err(errno)),
        }
    }
    (written, Ok(()))
}

/// Writes zeros. The kernel has them in its smallest pages then, so that of what is stored a page goes to the disk, and not a folio.
pub(crate) fn write_zeros(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<(), MediaError> {
    let zeros = vec![0; rustix::param::page_size()];
    for at in (0..len).step_by(zeros.len()) {
        let piece = &zeros[..zeros.len().min((len - at) as usize)];
        write(file, offset + at, piece).1.map_err(MediaError::system("write new file"))?;
    }
    Ok(())
}
