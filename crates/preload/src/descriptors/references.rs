//! Descriptors that the kernel knows as files of their own: they keep files for every process that has them, and have locks.
//!
//! A process that was forked or executed has descriptors of ours before it has a session that could say so, and the
//! session that had is perhaps gone by then. So the placeholder of a descriptor that is handed on is replaced by a
//! *reference*: an open file description of the inode's lock file, which says "open" for as long as any process has it
//! ([`cuesta_format::control`]). One is made, too, before the first lock on a description: locks are the kernel's on that
//! description. Code we do not serve gets an error for reading or writing it, as for the placeholder before.

use cuesta_format::InodeNumber;
use cuesta_media::lock_files::{self, Access};
use rustix::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};
use rustix::fs::FileType;

use crate::call::{Failure, filter};
use crate::descriptors::{self, Pin, kernel, record_locks};
use crate::thread::{self, gate};
use crate::users::store_user::StoreUser;
use crate::{arch, process};

/// Makes references of all descriptors before a child is made that has its parent's memory, and copies of its descriptors.
pub fn keep_for_child() {
    if is_wanted() {
        gate::alone(|| keep(|fd, _| is_marker(fd)));
    }
}

/// Makes references of the descriptors that `survive` an exec.
pub fn keep_for_exec(survives: impl Fn(i32) -> bool) {
    let survives = |fd: i32, _: &Pin| survives(fd) && is_marker(fd);
    if thread::is_vforked() {
        // Its descriptors are its own, and no other thread has them.
        keep(survives);
    } else if is_wanted() {
        gate::alone(|| keep(survives));
    }
}

/// Makes references of each description with a descriptor that `filter` lets through. Call when no other thread can close
/// one of ours: its number could be the application's the next moment.
pub fn keep(filter: impl Fn(i32, &Pin) -> bool) {
    for (pin, fds) in descriptors::grouped(|_| true) {
        if fds.iter().any(|fd| filter(*fd, &pin)) {
            keep_one(&pin, &fds);
        }
    }
}

fn is_wanted() -> bool {
    descriptors::all().iter().any(|(fd, pin)| !pin.is_reference() && is_marker(*fd))
}

/// Makes references of all descriptors of one description. Call as [`keep`], while the process has no record locks on the
/// inode: a descriptor of its lock file is closed here.
pub fn keep_one(pin: &Pin, fds: &[i32]) {
    if pin.is_reference() {
        return;
    }
    let mut made = None;
    for &fd in fds.iter().filter(|fd| is_placeholder(**fd)) {
        if made.is_none() {
            made = take(pin);
        }
        let Some(reference) = &made else { return };
        let close_on_exec = control(fd, libc::F_GETFD) & libc::FD_CLOEXEC as isize;
        let flags = if close_on_exec != 0 { libc::O_CLOEXEC } else { 0 };
        let arguments = [reference.as_raw_fd() as usize, fd as usize, flags as usize, 0, 0, 0];
        // SAFETY: `fd` is ours, and no other thread closes it now: no descriptor of the application's is replaced.
        if unsafe { arch::syscall(libc::SYS_dup3 as usize, arguments) } < 0 {
            return;
        }
    }
    // A vfork child's descriptors are not its parent's, but this memory is.
    if !thread::is_vforked() {
        pin.note_reference();
    }
}

/// Makes sure that `fd` is a reference, so that it can have locks.
pub fn ensure(fd: i32, pin: &Pin) -> Result<(), Failure> {
    if pin.is_reference() {
        return Ok(());
    }
    if !is_placeholder(fd) {
        if !thread::is_vforked() {
            pin.note_reference();
        }
        return Ok(());
    }
    let keep = || {
        let all = descriptors::all().into_iter().filter(|(_, other)| other.is_same(pin));
        let alike: Vec<i32> = all.map(|(fd, _)| fd).collect();
        if !alike.contains(&fd) {
            return Err(Failure::Errno(libc::EBADF));
        }
        keep_one(pin, &alike);
        // Without room for one more descriptor.
        if is_placeholder(fd) { Err(Failure::Errno(libc::ENOLCK)) } else { Ok(()) }
    };
    if thread::is_vforked() { keep() } else { gate::alone(keep) }
}

/// A descriptor for what was just opened: a placeholder, unless the process may have record locks on the inode.
pub fn descriptor(pin: &Pin, close_on_exec: bool) -> Result<i32, Failure> {
    let is_wanted = !pin.is_path() && record_locks::may_be_held(pin.inode());
    let Some(reference) = is_wanted.then(|| take(pin)).flatten() else {
        return process::placeholder(pin.token(), 0, close_on_exec);
    };
    if reference.as_raw_fd() as usize >= filter::DESCRIPTOR_LIMIT {
        return Err(Failure::Errno(libc::EMFILE));
    }
    if !close_on_exec {
        rustix::io::fcntl_setfd(&reference, rustix::io::FdFlags::empty())?;
    }
    pin.note_reference();
    Ok(reference.into_raw_fd())
}

/// A reference to an inode. Without room for one more descriptor there is none, and the file lasts only as long as
/// sessions have it open.
fn take(pin: &Pin) -> Option<OwnedFd> {
    let client = process::attached()?;
    if client.is_served() {
        return client.lock_file(pin.file().ok()?).ok();
    }
    let access = match (pin.is_path(), pin.writes()) {
        (true, _) => Access::Path,
        (false, true) => Access::Write,
        (false, false) => Access::Read,
    };
    client.note_lock_file();
    let _as_store_user = StoreUser::become_again();
    client.references(|folder| lock_files::take(folder, InodeNumber(pin.inode()), access))?.ok()
}

/// Whether one of ours has no locks on it: a copy of the marker, or of what SharedFS knows an open file by.
pub fn is_placeholder(fd: i32) -> bool {
    is_marker(fd) || is_token(fd)
}

/// Whether it is one that says nothing.
fn is_marker(fd: i32) -> bool {
    let flags = control(fd, libc::F_GETFL);
    flags >= 0 && flags & libc::O_PATH as isize != 0
}

/// Whether one of ours is the end of a pipe by which SharedFS knows an open file. It can be handed on as it is.
fn is_token(fd: i32) -> bool {
    rustix::fs::fstat(kernel::borrow(fd))
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo)
}

/// Whether a descriptor of another process was one of its placeholders: like ours, of the daemon's socket, or of its copy.
pub fn is_placeholder_of_store(fd: i32) -> bool {
    let Ok(configuration) = process::configuration() else { return false };
    let found = rustix::fs::fstat(kernel::borrow(fd));
    let socket = rustix::fs::stat(&configuration.socket[..]);
    is_marker(fd)
        && found
            .is_ok_and(|found| socket.is_ok_and(|it| (it.st_dev, it.st_ino) == (found.st_dev, found.st_ino)))
}

fn control(fd: i32, command: i32) -> isize {
    // SAFETY: only asks about a descriptor.
    unsafe { arch::syscall(libc::SYS_fcntl as usize, [fd as usize, command as usize, 0, 0, 0, 0]) }
}
