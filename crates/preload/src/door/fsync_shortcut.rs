//! An `fsync` answered by its symbol, without the client, where every call is durable when it returns.
//!
//! A program that asks for one there can only learn that the descriptor is none, or knows a name and no content (`O_PATH`), or that
//! the session has ended. These are words that any thread may read at any time, a signal's handler as well. In every doubt the
//! door is asked.

use std::ffi::c_int;

use crate::door::counting;
use crate::store::Client;
use crate::{descriptors, process, thread};

/// Whether an `fsync` of this descriptor has nothing to do and nothing to tell.
#[inline(always)]
pub fn is_synced(fd: c_int) -> bool {
    descriptors::is_open(fd)
        && !thread::is_vforked()
        && process::is_caught_up()
        && !counting::counts()
        && process::attached().is_some_and(Client::has_nothing_to_sync)
}
