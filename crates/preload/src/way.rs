//! The way to SharedFS for a process that may not have a session: the folder of the socket for other users, which who is
//! about to become one takes along while it can reach it, through exec.

use std::sync::atomic::{AtomicI32, Ordering};

use cuesta_format::geometry::{USERS_FOLDER, USERS_SOCKET_FILE};
use cuesta_libfs::Capabilities;
use rustix::fd::AsFd as _;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::filter;
use crate::process::{Configuration, attached, borrow, configuration, descriptor_floor, set_aside};
use crate::store::{Client, Renewal, Token};

/// The folder of the socket for other users, taken along; negative: it was not.
static WAY: AtomicI32 = AtomicI32::new(-1);

/// Has SharedFS serve this process, which may not have a session.
pub fn connect_as_user(configuration: &Configuration) -> Result<cuesta_served::Client, String> {
    // One daemon may be gone, and the next not there yet.
    let connect = || cuesta_served::Client::connect(&users_socket(configuration), descriptor_floor());
    let client = cuesta_libfs::patiently(cuesta_libfs::RESUME_WAIT, connect);
    client.map(|client| client.held_by(&Renewal)).map_err(|error| error.to_string())
}

/// The same for a process with these capabilities that can have a session instead: if nobody listens there now, it does.
pub fn connect_at_once(
    configuration: &Configuration,
    capabilities: Capabilities,
) -> Option<cuesta_served::Client> {
    let client = cuesta_served::Client::connect(&users_socket(configuration), descriptor_floor()).ok()?;
    Some(client.within(capabilities).ok()?.held_by(&Renewal))
}

/// The socket for other users, as this process reaches it.
pub fn users_socket(configuration: &Configuration) -> Vec<u8> {
    match get() {
        Some(way) => format!("/proc/self/fd/{way}/{USERS_SOCKET_FILE}").into_bytes(),
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
        (Some(way), _) => rustix::fs::fstat(borrow(way)),
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
    Some(WAY.load(Ordering::Acquire)).filter(|way| *way >= 0)
}

/// It has another number from now on.
pub fn take_over(number: i32) {
    WAY.store(number, Ordering::Release);
}

/// The program before exec left one.
pub fn adopt(way: Token) {
    filter::ACTIVE.store(1, Ordering::Release);
    filter::HOLDS.store(1, Ordering::Release);
    WAY.store(way.into_number(), Ordering::Release);
}

/// Takes the way along while this process can reach it: as another user it may not.
pub fn take() {
    let Ok(configuration) = configuration() else { return };
    if get().is_some() {
        return;
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let way = rustix::fs::open(&users_folder(configuration)[..], flags, Mode::empty());
    if let Ok(way) = way.and_then(|way| set_aside(way.as_fd())) {
        adopt(Token::new(way));
    }
}

/// A connection to SharedFS by which this process asks as who it is now, whoever it becomes.
pub fn bridge() -> Option<cuesta_served::Client> {
    connect_as_user(configuration().ok()?).ok()
}

/// Waits until SharedFS has closed what the last process it served has let go of, if it can be asked.
pub fn settle() {
    let settled = match (attached(), configuration()) {
        (Some(Client::Served(client)), _) => client.settle(),
        (_, Ok(configuration)) => {
            let client = cuesta_served::Client::connect(&users_socket(configuration), descriptor_floor());
            client.and_then(|client| client.settle())
        }
        _ => return,
    };
    // Who cannot be asked closes nothing, or is about to close everything.
    drop(settled);
}

/// Whether this process may not even see the store's socket, or not use it.
pub fn is_of_another_user(configuration: &Configuration) -> bool {
    let access = rustix::fs::Access::WRITE_OK;
    let flags = rustix::fs::AtFlags::EACCESS;
    rustix::fs::accessat(rustix::fs::CWD, &configuration.socket[..], access, flags) == Err(Errno::ACCESS)
}
