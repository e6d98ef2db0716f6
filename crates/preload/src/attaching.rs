//! Attaching to the store: with a session, or as one that SharedFS serves; and going on with a session behind a trial
//! ([`crate::trial`]).

use std::sync::atomic::Ordering;

use cuesta_format::InodeNumber;
use rustix::fd::{AsFd as _, IntoRawFd as _};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::authority::StoreUser;
use crate::calls::{self, Failure};
use crate::process::{
    ATTACHING, CLIENT, COMPLAINED, ChildSession, Configuration, MARKER, SESSION_WANTED, attached,
    configuration, contents, descriptor_floor, own_name, set_aside,
};
use crate::store::{Client, shipping};
use crate::{descriptors, filter, gate, process, references, thread, trial, way, working_directory};

/// Attaches this process, unless another thread just has.
#[cold]
pub fn attach() -> Result<&'static Client, Failure> {
    let configuration = configuration()?;
    let _attaching = ATTACHING.hold();
    if let Some(client) = attached() {
        return Ok(client);
    }
    // By what the thread is now, before it becomes the store's user for a moment.
    let allowance = trial::allowance();
    if allowance > 0 {
        shipping::note_credentials();
    }
    let _as_store_user = StoreUser::become_again();
    let is_served = way::is_another_user() || addresses_are_short();
    let on_trial = (!is_served && allowance > 0).then(|| way::connect_at_once(configuration)).flatten();
    let attached = match on_trial {
        Some(client) => {
            trial::begin(allowance);
            Ok(Client::Served(client))
        }
        None if is_served => way::connect_as_user(configuration).map(Client::Served),
        None => {
            trial::end();
            match own(configuration) {
                Err(_) if way::is_of_another_user(configuration) => {
                    way::connect_as_user(configuration).map(Client::Served)
                }
                own => own.map_err(|error| error.to_string()),
            }
        }
    };
    let client = match attached {
        Ok(client) => client,
        Err(error) => {
            let socket = String::from_utf8_lossy(&configuration.socket);
            let is_anothers = way::is_another_user() || way::is_of_another_user(configuration);
            if !COMPLAINED.swap(true, Ordering::Relaxed) {
                if is_anothers {
                    let user = rustix::process::geteuid().as_raw();
                    crate::report(format_args!(
                        "the store at {socket} is another user's, and is not served to user {user}: {error} (a program \
                         reaches it that was started by one of the store's user's, or if the store's folder may be \
                         searched)"
                    ));
                } else {
                    crate::report(format_args!("cannot attach to the store at {socket}: {error}"));
                }
            }
            return Err(Failure::Errno(if is_anothers { libc::EACCES } else { libc::EIO }));
        }
    };
    install(client, configuration)
}

/// A session of the process's own.
fn own(configuration: &Configuration) -> Result<Client, cuesta_libfs::Error> {
    // Where the program is, or else paths begin at the root.
    let first = working_directory::pin().map_or(InodeNumber::ROOT, |pin| InodeNumber(pin.inode()));
    let (socket, floor) = (&configuration.socket, descriptor_floor());
    let client = cuesta_libfs::Client::attach_to(socket, floor, &own_name(), first)?;
    client.ship_by(Box::new(shipping::Sending));
    Ok(Client::Own(client))
}

/// A process that SharedFS serves, on trial, goes on with a session. What it has open stays with SharedFS.
pub fn take_session() -> Result<&'static Client, Failure> {
    let configuration = configuration()?;
    let _attaching = ATTACHING.hold();
    let before = attached();
    if let Some(client) = before.filter(|client| !client.is_served()) {
        return Ok(client);
    }
    trial::end();
    let _as_store_user = StoreUser::become_again();
    let client = own(configuration)?;
    if let Some(before) = before {
        shipping::go_on_with(before);
    }
    install(client, configuration)
}

/// The same between two calls of this thread: what the process has open is its session's from then on, unless other processes share it.
pub fn take_session_for_all() {
    // Who can have none is served on.
    if take_session().is_err() {
        return;
    }
    gate::if_alone(|| {
        for (pin, fds) in descriptors::grouped(|_| true) {
            let is_plain = fds.iter().all(|fd| references::is_placeholder(*fd));
            if is_plain && pin.take_over() {
                fds.into_iter().for_each(process::put_placeholder);
            }
        }
        if let Some(directory) = working_directory::pin() {
            directory.take_over();
        }
    });
}

/// Makes it this process's, or this vfork child's.
fn install(client: Client, configuration: &Configuration) -> Result<&'static Client, Failure> {
    let wants_marker = !client.is_served() && (thread::is_vforked() || MARKER.load(Ordering::Relaxed) < 0);
    let marker = match wants_marker.then(|| make_marker(configuration)).transpose() {
        Ok(marker) => marker,
        Err(failure) => {
            // Nobody would know of it: the next call begins another.
            client.part();
            return Err(failure);
        }
    };
    let client: &'static Client = Box::leak(Box::new(client));
    let limit = file_limit();
    if !client.is_served() || limit != u64::MAX {
        client.limit_files(limit);
    }
    client.watch_programs(calls::running::is_running);
    client.keep_descriptors(descriptors::KEEPER);
    client.tell_of_giving_up(|why| crate::report_inside(format_args!("a call fails (EIO): {why}")));
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
