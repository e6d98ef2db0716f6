//! The way by which this process's session sends operations to SharedFS ([`cuesta_libfs::Shipper`]): a connection as those of processes
//! that have no session, made when the first operation is sent.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use cuesta_format::InodeRecord;
use cuesta_libfs::{Error, ShippedChange, ShippedFile, Shipper};
use cuesta_media::{UserSlice, UserSliceMut, clock};
use cuesta_served::Client;
use cuesta_threads::GenerationLock;
use rustix::fd::OwnedFd;

use crate::authority::StoreUser;
use crate::{descriptors, process, thread, way};

/// After a connection that could not be made, operations are done here for so long.
const PAUSE_MS: u64 = 1000;

static CONNECTION: AtomicPtr<Client> = AtomicPtr::new(ptr::null_mut());
static CONNECTING: GenerationLock = GenerationLock::new();
static NOT_BEFORE_MS: AtomicU64 = AtomicU64::new(0);

/// Sends operations.
#[derive(Debug)]
pub struct Sending;

/// The connection, if there is one.
fn connection() -> Option<&'static Client> {
    // SAFETY: null, or a client that `connect` leaked and `forget` took away with no other thread inside.
    unsafe { CONNECTION.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn connect() -> Option<&'static Client> {
    let configuration = process::configuration().ok()?;
    // The descriptors of a vfork child are its own, its parent's memory is not.
    if thread::is_vforked() || clock::milliseconds() < NOT_BEFORE_MS.load(Ordering::Relaxed) {
        return None;
    }
    let _connecting = CONNECTING.hold();
    if let Some(client) = connection() {
        return Some(client);
    }
    let _as_store_user = StoreUser::become_again();
    match way::connect_as_user(configuration) {
        Ok(client) => {
            descriptors::hide(client.descriptor(), true);
            CONNECTION.store(Box::into_raw(Box::new(client)), Ordering::Release);
            connection()
        }
        Err(_) => {
            NOT_BEFORE_MS.store(clock::milliseconds() + PAUSE_MS, Ordering::Relaxed);
            None
        }
    }
}

/// Forgets a parent's connection, of which the child closes its copies.
pub fn after_fork() {
    CONNECTION.store(ptr::null_mut(), Ordering::Release);
}

/// Gives the connection up. Call with no other thread inside.
pub fn forget() {
    let client = CONNECTION.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or leaked by `connect`; no other thread is inside to use it.
    let Some(client) = (!client.is_null()).then(|| unsafe { Box::from_raw(client) }) else { return };
    descriptors::hide(client.descriptor(), false);
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
