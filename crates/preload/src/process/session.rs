//! The session of this process, once there is one, and the placeholders that come from it.

use crate::call::Failure;
use crate::process::child_session::ChildSession;
use crate::store::Client;
use crate::thread;
use cuesta_threads::GenerationLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

pub(crate) static CLIENT: AtomicPtr<Client> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) static ATTACHING: GenerationLock = GenerationLock::new();

pub(crate) static MARKER: AtomicI32 = AtomicI32::new(-1);

/// A vfork child needed a session that its parent did not have.
pub(crate) static SESSION_WANTED: AtomicBool = AtomicBool::new(false);

pub(crate) static COMPLAINED: AtomicBool = AtomicBool::new(false);

/// The session, if there is one.
#[inline]
pub fn attached() -> Option<&'static Client> {
    // SAFETY: null, or a client that was leaked for the process's life.
    match unsafe { CLIENT.load(Ordering::Acquire).as_ref() } {
        Some(client) => Some(client),
        None if thread::is_vforked() => childs_own().map(|own| own.client),
        None => None,
    }
}

#[inline]
pub(crate) fn childs_own() -> Option<ChildSession> {
    // SAFETY: the reference ends within this expression.
    unsafe { thread::delta() }.as_ref().and_then(|delta| delta.session)
}

/// A new placeholder descriptor, the lowest free one from `lowest` on.
/// For a file that SharedFS serves it is a copy of the `token`.
#[inline]
pub fn placeholder(token: Option<i32>, lowest: i32, close_on_exec: bool) -> Result<i32, Failure> {
    let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    let marker = match childs_own() {
        _ if token.is_some() => token.unwrap_or(-1),
        Some(own) if thread::is_vforked() => own.marker,
        _ => MARKER.load(Ordering::Acquire),
    };
    let arguments = [marker as usize, command as usize, lowest as usize, 0, 0, 0];
    // SAFETY: makes a new descriptor, of the marker.
    let fd = unsafe { crate::arch::syscall(libc::SYS_fcntl as usize, arguments) } as i32;
    match fd {
        0.. if (fd as usize) < crate::call::filter::DESCRIPTOR_LIMIT => Ok(fd),
        0.. => {
            // SAFETY: the descriptor just made.
            unsafe { crate::arch::syscall(libc::SYS_close as usize, [fd as usize, 0, 0, 0, 0, 0]) };
            Err(Failure::Errno(libc::EMFILE))
        }
        _ => Err(Failure::Errno(-fd)),
    }
}
