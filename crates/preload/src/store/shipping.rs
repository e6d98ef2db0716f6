//! The connection by which SharedFS does what this process's session does not: operations that the session sends
//! ([`cuesta_libfs::Shipper`]), and the first calls of a process that has no session yet ([`crate::process::first_calls`]). It is as those of
//! other users' processes, and made when it is first needed.

use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuesta_format::LogDependency;
use cuesta_libfs::{Credentials, Observed};
use cuesta_media::clock;
use cuesta_served::{Channel, OwnSession};
use cuesta_threads::GenerationLock;
use rustix::fd::OwnedFd;

use crate::call::filter;
use crate::store::{Client, shipping};
use crate::users::{connecting, credentials};
use crate::{descriptors, process, thread};

/// After a connection that could not be made, everything is done here for so long.
const PAUSE_MS: u64 = 1000;

/// A [`Client::Served`] that is never freed, as another thread may be about to use it.
static CONNECTION: AtomicPtr<Client> = AtomicPtr::new(ptr::null_mut());
/// The credentials of the thread that made the connection: SharedFS judges by them.
static CONNECTED_AS: Mutex<Option<Arc<Credentials>>> = Mutex::new(None);
static CONNECTING: GenerationLock = GenerationLock::new();
static NOT_BEFORE_MS: AtomicU64 = AtomicU64::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connection, if there is one.
pub fn connection() -> Option<&'static Client> {
    // SAFETY: null, or a client that is never freed.
    unsafe { CONNECTION.load(Ordering::Acquire).as_ref() }
}

fn served(client: &'static Client) -> Option<&'static cuesta_served::Client> {
    match client {
        Client::Served(client) => Some(client),
        Client::Own(_) => None,
    }
}

/// The connection, for a call that is judged by `credentials`: SharedFS must judge it by the same.
pub fn connection_for(credentials: &Credentials) -> Option<&'static Client> {
    if !credentials.is_plain {
        return None;
    }
    let client = connection().or_else(connect)?;
    (lock(&CONNECTED_AS).as_deref() == Some(credentials)).then_some(client)
}

/// The same for a session that sends a call.
pub(super) fn served_for(credentials: &Credentials) -> Option<&'static cuesta_served::Client> {
    connection_for(credentials).and_then(served)
}

#[cold]
fn connect() -> Option<&'static Client> {
    let configuration = process::configuration().ok()?;
    // The descriptors of a vfork child are its own, its parent's memory is not.
    if thread::is_vforked() || clock::milliseconds() < NOT_BEFORE_MS.load(Ordering::Relaxed) {
        return None;
    }
    let now = credentials::effective();
    let _connecting = CONNECTING.hold();
    if let Some(client) = connection() {
        return Some(client);
    }
    if !now.is_plain {
        return None;
    }
    let Some(client) = connecting::connect_now(configuration, now.capabilities) else {
        NOT_BEFORE_MS.store(clock::milliseconds() + PAUSE_MS, Ordering::Relaxed);
        return None;
    };
    *lock(&CONNECTED_AS) = Some(now);
    descriptors::hide(client.descriptor(), true);
    filter::ACTIVE.store(1, Ordering::Release);
    filter::HOLDS.store(1, Ordering::Release);
    let client: &'static Client = Box::leak(Box::new(Client::Served(client.beside(Arc::new(Session)))));
    CONNECTION.store(ptr::from_ref(client).cast_mut(), Ordering::Release);
    Some(client)
}

/// Forgets a parent's connection, of which the child closes its copies, and what the parent saw. Says whether there was one.
pub fn after_fork() -> bool {
    OBSERVED.forget();
    !CONNECTION.swap(ptr::null_mut(), Ordering::AcqRel).is_null()
}

/// Gives the connection up; another thread may be about to use it, and finds it closed.
pub fn forget() {
    let client = connection();
    CONNECTION.store(ptr::null_mut(), Ordering::Release);
    if let Some(client) = client.and_then(served) {
        descriptors::hide(client.descriptor(), false);
        client.hang_up();
    }
}

/// Goes on with `copy` in the place of the connection's descriptor `number`, which is answered; `copy` if it is another's.
pub fn replace_descriptor(number: i32, copy: OwnedFd) -> OwnedFd {
    match connection() {
        Some(client) => client.replace_descriptor(number, copy),
        None => copy,
    }
}

/// What answers of SharedFS said of its log.
static OBSERVED: Observed = Observed::new();

/// The session of this process, beside the connection.
#[derive(Debug)]
struct Session;

impl OwnSession for Session {
    fn undurable_end(&self) -> Option<LogDependency> {
        match process::attached()? {
            Client::Own(client) => client.undurable_end(),
            Client::Served(_) => None,
        }
    }

    fn note(&self, seen: LogDependency) {
        OBSERVED.note(seen);
    }
}

/// The connection, as the session has it.
#[derive(Debug)]
pub struct Connection;

impl Channel for Connection {
    fn connection(&self) -> Option<impl Deref<Target = cuesta_served::Client>> {
        connection().or_else(connect).and_then(served)
    }

    fn connection_for(
        &self,
        credentials: &Credentials,
    ) -> Option<impl Deref<Target = cuesta_served::Client>> {
        served_for(credentials)
    }

    fn observed(&self) -> &Observed {
        &OBSERVED
    }
}

impl Client {
    /// Goes on with `copy` in the place of the descriptor `number`, which is answered; `copy` if it is none of these.
    pub fn replace_descriptor(&self, number: i32, copy: OwnedFd) -> OwnedFd {
        match self {
            Client::Own(client) => {
                shipping::replace_descriptor(number, client.replace_descriptor(number, copy))
            }
            Client::Served(client) => client.replace_descriptor(number, copy),
        }
    }
}
