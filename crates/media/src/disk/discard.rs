//! Tells a disk without a file system that it need not keep a part of its content.

use rustix::fd::{AsRawFd as _, BorrowedFd};
use rustix::io::Errno;
use syscalls::{Sysno, raw_syscall};

/// `BLKDISCARD`: its argument is where a part begins, and how long it is.
const BLKDISCARD: u32 = 0x1277;

/// The disk need not keep these bytes. Reading them gives anything.
pub fn discard(disk: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<(), Errno> {
    let part = [offset, bytes];
    // SAFETY: the kernel reads the two numbers, and changes no memory of this process but pages of that part of the disk.
    let result = unsafe { raw_syscall!(Sysno::ioctl, disk.as_raw_fd(), BLKDISCARD, part.as_ptr()) } as isize;
    if result < 0 { Err(Errno::from_raw_os_error(-result as i32)) } else { Ok(()) }
}
