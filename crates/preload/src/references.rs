//! Keeping files for whoever has a descriptor of them, whatever names they lose.
//!
//! A process that was forked or executed has descriptors of ours before it has a session that could say so, and the
//! session that had is perhaps gone by then. So the placeholder of a descriptor that is handed on is replaced by one the
//! kernel counts for us: an open file description of the store's references folder, with a lock on the byte whose offset
//! is the inode's number, and on another if it is for writing ([`cuesta_format::control`]). It says "open" for as long as
//! any process has it. Code we do not serve gets an error for reading or writing it, as for the placeholder before.

use cuesta_format::control::WRITERS_OFFSET;
use cuesta_media::byte_locks;
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};

use crate::descriptors::{self, Pin};
use crate::{arch, gate, process, thread};

/// Does so for all descriptors before a child is made that has its parent's memory, and copies of its descriptors.
pub fn keep_for_child() {
    if is_wanted() {
        gate::alone(|| keep(|_| true));
    }
}

/// Does so for the descriptors that `survive` an exec.
pub fn keep_for_exec(survive: impl Fn(i32) -> bool) {
    if thread::is_vforked() {
        // Its descriptors are its own, and no other thread has them.
        keep(survive);
    } else if is_wanted() {
        gate::alone(|| keep(survive));
    }
}

/// Does so for the descriptors that `filter` lets through. Call when no other thread can close one of ours: its number
/// could be the application's the next moment.
pub fn keep(filter: impl Fn(i32) -> bool) {
    for (pin, fds) in descriptors::grouped(filter) {
        keep_one(&pin, &fds);
    }
}

fn is_wanted() -> bool {
    descriptors::all().iter().any(|(fd, _)| is_placeholder(*fd))
}

/// Does so for descriptors of one description. Call as [`keep`].
pub fn keep_one(pin: &Pin, fds: &[i32]) {
    let mut made = None;
    for &fd in fds.iter().filter(|fd| is_placeholder(**fd)) {
        if made.is_none() {
            made = make(pin);
        }
        let Some(reference) = &made else { return };
        let close_on_exec = control(fd, libc::F_GETFD) & libc::FD_CLOEXEC as isize;
        let flags = if close_on_exec != 0 { libc::O_CLOEXEC } else { 0 };
        let arguments = [reference.as_raw_fd() as usize, fd as usize, flags as usize, 0, 0, 0];
        // SAFETY: `fd` is ours, and nobody else closes it now: no descriptor of the application's is replaced.
        unsafe { arch::syscall(libc::SYS_dup3 as usize, arguments) };
    }
}

/// A reference to an inode. Without room for one more descriptor there is none, and the file lasts only as long as
/// sessions have it open.
fn make(pin: &Pin) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let reference = openat(&*process::attached()?.references(), c".", flags, Mode::empty()).ok()?;
    byte_locks::mark(&reference, pin.inode()).ok()?;
    if pin.writes() {
        byte_locks::mark(&reference, WRITERS_OFFSET + pin.inode()).ok()?;
    }
    Some(reference)
}

/// Whether it is one that says nothing: a copy of the marker.
pub fn is_placeholder(fd: i32) -> bool {
    let flags = control(fd, libc::F_GETFL);
    flags >= 0 && flags & libc::O_PATH as isize != 0
}

/// Whether a descriptor of another process was one of its placeholders: like ours, of the daemon's socket, or of its copy.
pub fn is_placeholder_of_store(fd: i32) -> bool {
    let Ok(configuration) = process::configuration() else { return false };
    // SAFETY: used for one call; the caller has just made it.
    let found = rustix::fs::fstat(unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) });
    let socket = rustix::fs::stat(&configuration.socket[..]);
    is_placeholder(fd)
        && found
            .is_ok_and(|found| socket.is_ok_and(|it| (it.st_dev, it.st_ino) == (found.st_dev, found.st_ino)))
}

fn control(fd: i32, command: i32) -> isize {
    // SAFETY: only asks about a descriptor.
    unsafe { arch::syscall(libc::SYS_fcntl as usize, [fd as usize, command as usize, 0, 0, 0, 0]) }
}
