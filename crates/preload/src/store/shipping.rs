//! The way by which this process's session sends operations to SharedFS ([`cuesta_libfs::Shipper`]): a connection as those of processes
//! that have no session, made when the first operation is sent.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuesta_format::InodeRecord;
use cuesta_libfs::{Credentials, Error, ShippedChange, ShippedFile, Shipper};
use cuesta_media::{UserSlice, UserSliceMut, clock};
use cuesta_served::Client;
use cuesta_threads::GenerationLock;
use rustix::fd::OwnedFd;

use crate::{credentials, descriptors, process, thread, way};

/// After a connection that could not be made, operations are done here for so long.
const PAUSE_MS: u64 = 1000;

static CONNECTION: AtomicPtr<Client> = AtomicPtr::new(ptr::null_mut());
/// Whose connection it was before this process had a session.
static SERVED_BEFORE: AtomicPtr<super::Client> = AtomicPtr::new(ptr::null_mut());
/// Who the thread was that made the connection.
static CONNECTED_AS: Mutex<Option<Arc<Credentials>>> = Mutex::new(None);
static CONNECTING: GenerationLock = GenerationLock::new();
static NOT_BEFORE_MS: AtomicU64 = AtomicU64::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// SharedFS has the calling thread's credentials of the connection that is made now.
pub fn note_credentials() {
    *lock(&CONNECTED_AS) = Some(credentials::effective());
}

/// Whether SharedFS judges what is sent as this process judges it: by the same credentials.
pub fn may_send(credentials: &Credentials) -> bool {
    credentials.is_plain && lock(&CONNECTED_AS).as_deref() == Some(credentials)
}

/// Sends operations.
#[derive(Debug)]
pub struct Sending;

/// The connection, if there is one.
pub(super) fn connection() -> Option<&'static Client> {
    // SAFETY: null, or a client that is never freed.
    unsafe { CONNECTION.load(Ordering::Acquire).as_ref() }
}

/// The connection, made now if there is none.
#[cold]
pub(super) fn connect() -> Option<&'static Client> {
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
    *lock(&CONNECTED_AS) = Some(now);
    match way::connect_at_once(configuration) {
        Some(client) => {
            descriptors::hide(client.descriptor(), true);
            let client: &'static Client = Box::leak(Box::new(client));
            CONNECTION.store(ptr::from_ref(client).cast_mut(), Ordering::Release);
            Some(client)
        }
        None => {
            NOT_BEFORE_MS.store(clock::milliseconds() + PAUSE_MS, Ordering::Relaxed);
            None
        }
    }
}

/// Forgets a parent's connection, of which the child closes its copies.
pub fn after_fork() {
    SERVED_BEFORE.store(ptr::null_mut(), Ordering::Release);
    CONNECTION.store(ptr::null_mut(), Ordering::Release);
}

/// Operations are sent by the connection of `before`, by which the process was served so far.
pub fn go_on_with(before: &'static super::Client) {
    if let super::Client::Served(client) = before {
        SERVED_BEFORE.store(ptr::from_ref(before).cast_mut(), Ordering::Release);
        CONNECTION.store(ptr::from_ref(client).cast_mut(), Ordering::Release);
    }
}

/// Whether files of this client, which is only compared, are known by the connection.
pub fn knows_files_of(client: *const super::Client) -> bool {
    !client.is_null() && ptr::eq(SERVED_BEFORE.load(Ordering::Acquire), client)
}

/// Gives the connection up; another thread may be about to use it, and finds it closed.
pub fn forget() {
    let Some(client) = connection() else { return };
    SERVED_BEFORE.store(ptr::null_mut(), Ordering::Release);
    CONNECTION.store(ptr::null_mut(), Ordering::Release);
    descriptors::hide(client.descriptor(), false);
    client.hang_up();
}

/// Goes on with `copy` in the place of the connection's descriptor `number`, which is answered; `copy` if it is another's.
pub fn replace_descriptor(number: i32, copy: OwnedFd) -> OwnedFd {
    match connection() {
        Some(client) => client.replace_descriptor(number, copy),
        None => copy,
    }
}

impl Sending {
    fn way(&self, file: &ShippedFile) -> Result<&'static Client, Error> {
        connection().or_else(connect).ok_or(Error::Shipped(file.inode))
    }
}

impl Shipper for Sending {
    fn read(&self, file: &ShippedFile, out: &mut [UserSliceMut<'_>], at: u64) -> Result<usize, Error> {
        self.way(file)?.ship_read(file, out, at)
    }

    fn write(
        &self,
        file: &ShippedFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error> {
        self.way(file)?.ship_write(file, data, at)
    }

    fn change(&self, file: &ShippedFile, change: ShippedChange) -> Result<(), Error> {
        self.way(file)?.ship_change(file, change)
    }

    fn record(&self, file: &ShippedFile) -> Result<InodeRecord, Error> {
        self.way(file)?.ship_stat(file)
    }
}
