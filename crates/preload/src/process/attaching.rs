//! Attaching to the store: with a session, or as a process that SharedFS serves.

use std::sync::atomic::Ordering;

use cuesta_format::InodeNumber;
use cuesta_libfs::Keeper;
use cuesta_served::ByChannel;
use rustix::fd::{AsFd as _, AsRawFd as _, IntoRawFd as _};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::call::{Failure, filter};
use crate::calls::programs::running;
use crate::descriptors::classes::hide;
use crate::descriptors::kernel::{self, descriptor_floor, set_aside};
use crate::descriptors::{self, working_directory};
use crate::process::session::{ATTACHING, CLIENT, COMPLAINED, MARKER, SESSION_WANTED};
use crate::process::{
    ChildSession, Configuration, attached, attaching, configuration, contents, own_name, plain_report,
};
use crate::store::{Client, shipping};
use crate::thread;
use crate::users::store_user::StoreUser;
use crate::users::{connecting, socket_folder};

/// Attaches this process, unless another thread just has.
#[cold]
pub fn attach() -> Result<&'static Client, Failure> {
    let configuration = configuration()?;
    let _attaching = ATTACHING.hold();
    if let Some(client) = attached() {
        return Ok(client);
    }
    let program = own_name();
    let _as_store_user = StoreUser::become_again();
    // Where the program is, or else paths begin at the root.
    let first = working_directory::pin().map_or(InodeNumber::ROOT, |pin| InodeNumber(pin.inode()));
    let attached = if socket_folder::is_another_user() || addresses_are_short() {
        connecting::connect_as_user(configuration).map(Client::Served)
    } else {
        let Configuration { socket, wish, .. } = configuration;
        let own = cuesta_libfs::Client::attach_to(socket, descriptor_floor(), &program, first, *wish);
        match own {
            Err(_) if socket_folder::is_of_another_user(configuration) => {
                connecting::connect_as_user(configuration).map(Client::Served)
            }
            own => own
                .inspect(|client| send_operations_of(client))
                .map(Client::Own)
                .map_err(|error| error.to_string()),
        }
    };
    let client = match attached {
        Ok(client) => client,
        Err(error) => {
            let socket = String::from_utf8_lossy(&configuration.socket);
            let is_anothers =
                socket_folder::is_another_user() || socket_folder::is_of_another_user(configuration);
            if !COMPLAINED.swap(true, Ordering::Relaxed) {
                if is_anothers {
                    let user = rustix::process::geteuid().as_raw();
                    plain_report::report_inside(format_args!(
                        "the store at {socket} is another user's, and is not served to user {user}: {error} (a program \
                         reaches it that was started by one of the store's user's, or if the store's folder may be \
                         searched)"
                    ));
                } else {
                    plain_report::report_inside(format_args!(
                        "cannot attach to the store at {socket}: {error}"
                    ));
                }
            }
            return Err(Failure::Errno(if is_anothers { libc::EACCES } else { libc::EIO }));
        }
    };
    let wants_marker = !client.is_served() && (thread::is_vforked() || MARKER.load(Ordering::Relaxed) < 0);
    let marker = match wants_marker.then(|| make_marker(configuration)).transpose() {
        Ok(marker) => marker,
        Err(failure) => {
            // No part of this process would know of it: the next call begins another.
            client.part();
            return Err(failure);
        }
    };
    let client: &'static Client = Box::leak(Box::new(client));
    let limit = file_limit();
    if !client.is_served() || limit != u64::MAX {
        client.limit_files(limit);
    }
    client.watch_programs(running::is_running);
    client.keep_descriptors(KEEPER);
    client.tell_of_giving_up(|why| plain_report::report_inside(format_args!("a call fails (EIO): {why}")));
    filter::ACTIVE.store(1, Ordering::Release);
    filter::HOLDS.store(1, Ordering::Release);
    if thread::is_vforked() {
        SESSION_WANTED.store(true, Ordering::Relaxed);
        let own = ChildSession { client, marker: marker.unwrap_or(-1) };
        // SAFETY: the reference ends within the statement.
        unsafe { thread::delta() }.get_or_insert_default().session = Some(own);
        return Ok(client);
    }
    if let Some(marker) = marker {
        descriptors::hide(marker, true);
        MARKER.store(marker, Ordering::Release);
    }
    for fd in client.descriptors() {
        descriptors::hide(fd, true);
    }
    CLIENT.store(std::ptr::from_ref(client).cast_mut(), Ordering::Release);
    Ok(client)
}

/// The session sends operations by the connection of this process. A vfork child has no connection of its own, and its parent's speaks of
/// the parent's log: its session does everything itself.
fn send_operations_of(client: &cuesta_libfs::Client) {
    if !thread::is_vforked() {
        client.ship_by(Box::new(ByChannel(shipping::Connection)));
    }
}

/// Addresses that a session may come to map: its log, and what it reads of the store.
const ADDRESSES_WANTED: u64 = 1 << 30;

/// Whether the process may not map what a session does (`ulimit -v`): then SharedFS does its calls.
pub fn addresses_are_short() -> bool {
    let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::As).current else { return false };
    let sizes = contents(c"/proc/self/statm").unwrap_or_default();
    let pages = sizes
        .split(|byte| *byte == b' ')
        .next()
        .and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
    limit.saturating_sub(pages.unwrap_or(0u64) * rustix::param::page_size() as u64) < ADDRESSES_WANTED
}

fn make_marker(configuration: &Configuration) -> Result<i32, Failure> {
    let open = || rustix::fs::open(&configuration.socket[..], OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    // The daemon we attached to may have left by now: the next one makes its socket.
    let marker = cuesta_libfs::patiently(cuesta_libfs::RESUME_WAIT, || match open() {
        Err(Errno::NOENT) => Err(cuesta_libfs::Error::Disconnected),
        opened => Ok(opened),
    })??;
    let marker = set_aside(marker.as_fd())?;
    Ok(marker.into_raw_fd())
}

/// The largest a file may get, as the process allows itself.
pub fn file_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// The session; attached now if there is none.
#[inline]
pub fn client() -> Result<&'static Client, Failure> {
    match attached() {
        Some(client) => Ok(client),
        None => attaching::attach(),
    }
}

/// How LibFS keeps descriptors.
pub const KEEPER: Keeper = Keeper {
    is_usable: || !thread::is_vforked(),
    keep: |file| {
        let kept = kernel::set_aside(file).ok()?;
        hide(kept.as_raw_fd(), true);
        Some(kept)
    },
    let_go: |fd| hide(fd, false),
};
