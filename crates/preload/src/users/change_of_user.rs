//! Becoming another user.
//!
//! A process of the store's user, or of root, has a session, which is trusted. One that has become another user for good
//! is not: it gives its session up, with all it maps of the store, and SharedFS serves it from then on, as the user that it is
//! then. It keeps its open files: on a connection made as the old user, it has SharedFS keep each file,
//! and gets a descriptor that stands for it. A process that can go back is the same to the kernel as before, and to us.

use rustix::fd::AsRawFd as _;

use crate::descriptors::{self, cells, kernel, references, working_directory};
use crate::store::Client;
use crate::thread::{self, gate};
use crate::users::{connecting, socket_folder};
use crate::{arch, process};

/// The connection made before a change.
pub type Bridge = cuesta_served::Client;

/// A call is about to be made that may make this process another user's.
pub fn before() -> Option<Bridge> {
    if thread::is_vforked() || process::configuration().is_err() {
        return None;
    }
    if matches!(process::attached(), Some(Client::Served(_))) {
        return None;
    }
    socket_folder::take();
    let has_files = !descriptors::all().is_empty() || working_directory::pin().is_some();
    if has_files { connecting::bridge() } else { None }
}

/// Credentials have changed.
pub fn after(bridge: Option<Bridge>) {
    if thread::is_vforked() {
        return;
    }
    match process::attached() {
        // SharedFS serves it as the user that it is when it connects.
        Some(Client::Served(_)) => gate::alone(process::give_up_client),
        Some(Client::Own(_)) | None if is_another_user() => gate::alone(|| {
            if let Some(bridge) = &bridge {
                hand_over(bridge);
            }
            process::give_up_client();
            cells::withdraw();
        }),
        _ => {}
    }
}

/// Whether this process is not the store's user or root, and cannot become it again.
fn is_another_user() -> bool {
    let Some(folder) = socket_folder::get() else { return false };
    let (mut real, mut effective, mut saved) = (0u32, 0u32, 0u32);
    let arguments = [&raw mut real as usize, &raw mut effective as usize, &raw mut saved as usize, 0, 0, 0];
    // SAFETY: the kernel writes the three ids.
    unsafe { arch::syscall(libc::SYS_getresuid as usize, arguments) };
    let owner = rustix::fs::fstat(kernel::borrow(folder)).map_or(0, |stat| stat.st_uid);
    [real, effective, saved].iter().all(|&user| user != 0 && user != owner)
}

/// Has SharedFS keep everything this process has open, and puts what stands for it in the place of the placeholders. Those
/// that may have locks stay what they are.
fn hand_over(bridge: &Bridge) {
    for (pin, fds) in descriptors::grouped(|_| true) {
        let locks = fds.iter().find(|fd| !references::is_placeholder(**fd)).map(|fd| kernel::borrow(*fd));
        let Some(token) = pin.hand_over(bridge, locks.filter(|_| !pin.is_path())) else { continue };
        for fd in fds.into_iter().filter(|fd| references::is_placeholder(*fd)) {
            let is_closed_on_exec = rustix::io::fcntl_getfd(kernel::borrow(fd))
                .is_ok_and(|flags| flags.contains(rustix::io::FdFlags::CLOEXEC));
            let flags = if is_closed_on_exec { libc::O_CLOEXEC } else { 0 };
            let stands_for_it = locks.map_or(token, |locks| locks.as_raw_fd());
            let arguments = [stands_for_it as usize, fd as usize, flags as usize, 0, 0, 0];
            // SAFETY: `fd` is ours, and no other thread is inside: no descriptor of the application's is replaced.
            unsafe { arch::syscall(libc::SYS_dup3 as usize, arguments) };
        }
    }
    if let Some(directory) = working_directory::pin() {
        directory.hand_over(bridge, None);
    }
}
