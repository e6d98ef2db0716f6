//! Processes that do little: SharedFS does their first calls, as long as those are about names only.
//!
//! A session costs its attachment, a log segment, and a fence of the holder of the directory that the program works in. That is more than all
//! that a shell's `mv` does. So a process of the store's own user or of root has SharedFS do its calls at first, by a connection as those
//! of other users' processes have. It attaches a session when it opens its first file, or with its [`CALLS_MAX`]th call.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::call::Failure;
use crate::store::{Client, shipping};
use crate::users::{credentials, socket_folder};
use crate::{process, thread};

/// So many calls cost about what a session does.
const CALLS_MAX: u32 = 256;

static CALLS: AtomicU32 = AtomicU32::new(0);

/// The server of a call of this process that opens nothing.
pub fn client() -> Result<&'static Client, Failure> {
    match process::attached() {
        Some(client) => Ok(client),
        None => next().map_or_else(process::client, Ok),
    }
}

/// Whether it does calls of this process before that has a session.
pub fn is_done_by(client: &Client) -> bool {
    client.is_served() && shipping::connection().is_some_and(|first| std::ptr::eq(first, client))
}

/// SharedFS, if it does the next call.
#[cold]
fn next() -> Option<&'static Client> {
    if thread::is_vforked()
        || CALLS.fetch_add(1, Ordering::Relaxed) >= CALLS_MAX
        || socket_folder::is_another_user()
    {
        return None;
    }
    shipping::connection_for(&credentials::effective())
}

/// A child begins anew.
pub fn after_fork() {
    CALLS.store(0, Ordering::Relaxed);
}
