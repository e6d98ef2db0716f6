//! The kernel's descriptors: how this library borrows them, and where its own lie.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicI32, Ordering};

/// How many descriptors below the limit are ours to take.
const RESERVED_DESCRIPTORS: u64 = 128;

/// The limit assumed if it is higher: the kernel's table grows to the highest descriptor in use.
const LIMIT_ASSUMED: u64 = 1024;

/// Zero until it is first asked for.
static FLOOR: AtomicI32 = AtomicI32::new(0);

/// Lowest number for descriptors of our own: high, but below any limit on their number.
pub fn descriptor_floor() -> i32 {
    match FLOOR.load(Ordering::Relaxed) {
        0 => choose_floor(),
        floor => floor,
    }
}

#[cold]
fn choose_floor() -> i32 {
    let limit =
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(LIMIT_ASSUMED);
    let floor = limit.min(LIMIT_ASSUMED).saturating_sub(RESERVED_DESCRIPTORS).max(1) as i32;
    // The first thread decides for all.
    match FLOOR.compare_exchange(0, floor, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => floor,
        Err(first) => first,
    }
}

/// A copy of a descriptor out of the application's way, close-on-exec. Where a limit that was lowered meanwhile
/// leaves no room there it is in the way.
pub fn set_aside(file: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    match rustix::io::fcntl_dupfd_cloexec(file, descriptor_floor()) {
        Err(Errno::INVAL | Errno::MFILE) => rustix::io::fcntl_dupfd_cloexec(file, 0),
        copy => copy,
    }
}

/// A descriptor for the length of a call: one that this library knows to be open, `AT_FDCWD`, or a number the application
/// named, which need not be open: the kernel then answers EBADF.
pub fn borrow(fd: i32) -> BorrowedFd<'static> {
    // To the type −1 is no number of a descriptor; to the kernel every negative one is as bad.
    let fd = if fd == -1 { i32::MIN } else { fd };
    // SAFETY: used for one call, which checks the number.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Whether there is such a descriptor.
pub fn is_open(fd: i32) -> bool {
    rustix::io::fcntl_getfd(borrow(fd)).is_ok()
}
