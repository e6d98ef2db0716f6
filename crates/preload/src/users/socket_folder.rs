//! The folder of the socket for other users. A process that may not have a session reaches SharedFS by it.
//!
//! A process that is about to become another user takes a descriptor of the folder along while it can reach it, through exec.

use crate::call::filter;
use crate::descriptors::kernel::{borrow, set_aside};
use crate::process::{Configuration, configuration};
use crate::store::Token;
use cuesta_format::geometry::{USERS_FOLDER, USERS_SOCKET_FILE};
use rustix::fd::AsFd as _;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::sync::atomic::{AtomicI32, Ordering};

/// The folder of the socket for other users, taken along; negative: it was not.
static FOLDER: AtomicI32 = AtomicI32::new(-1);

/// The socket for other users, as this process reaches it.
pub fn users_socket(configuration: &Configuration) -> Vec<u8> {
    match get() {
        Some(folder) => format!("/proc/self/fd/{folder}/{USERS_SOCKET_FILE}").into_bytes(),
        None => [&users_folder(configuration), b"/".as_slice(), USERS_SOCKET_FILE.as_bytes()].concat(),
    }
}

/// Where the socket for other users is.
fn users_folder(configuration: &Configuration) -> Vec<u8> {
    let socket = &configuration.socket;
    let folder = socket.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    [&socket[..folder], USERS_FOLDER.as_bytes()].concat()
}

/// Whether this process is neither the store's user nor root, as far as it can tell.
pub fn is_another_user() -> bool {
    let user = rustix::process::geteuid();
    let owner = match (get(), configuration()) {
        _ if user.is_root() => return false,
        (Some(folder), _) => rustix::fs::fstat(borrow(folder)),
        (None, Ok(configuration)) => rustix::fs::stat(&configuration.socket[..]),
        (None, Err(_)) => return false,
    };
    owner.is_ok_and(|owner| owner.st_uid != user.as_raw())
}

/// Whether the store is another user's to this thread.
pub fn is_anothers() -> bool {
    is_another_user() || configuration().is_ok_and(is_of_another_user)
}

/// A descriptor of the folder of the socket for other users, if this process took one along.
pub fn get() -> Option<i32> {
    Some(FOLDER.load(Ordering::Acquire)).filter(|folder| *folder >= 0)
}

/// It has another number from now on.
pub fn take_over(number: i32) {
    FOLDER.store(number, Ordering::Release);
}

/// The program before exec left one.
pub fn adopt(folder: Token) {
    filter::ACTIVE.store(1, Ordering::Release);
    filter::HOLDS.store(1, Ordering::Release);
    FOLDER.store(folder.into_number(), Ordering::Release);
}

/// Takes the folder along while this process can reach it: as another user it may not.
pub fn take() {
    let Ok(configuration) = configuration() else { return };
    if get().is_some() {
        return;
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let folder = rustix::fs::open(&users_folder(configuration)[..], flags, Mode::empty());
    if let Ok(folder) = folder.and_then(|folder| set_aside(folder.as_fd())) {
        adopt(Token::new(folder));
    }
}

/// Whether this process may not even see the store's socket, or not use it.
pub fn is_of_another_user(configuration: &Configuration) -> bool {
    let access = rustix::fs::Access::WRITE_OK;
    let flags = rustix::fs::AtFlags::EACCESS;
    rustix::fs::accessat(rustix::fs::CWD, &configuration.socket[..], access, flags) == Err(Errno::ACCESS)
}
