//! Giving the session up, and the end of the process.

use crate::calls::programs::copies;
use crate::descriptors;
use crate::process::attaching::{addresses_are_short, file_limit};
use crate::process::session::{CLIENT, attached, childs_own};
use crate::store::shipping;
use crate::thread::{self, gate};
use std::sync::atomic::Ordering;

/// Gives up the session, or the connection that SharedFS serves it by; the next call begins another. Call with no other
/// thread inside.
pub fn give_up_client() {
    shipping::forget();
    let client = CLIENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or a client that was leaked for the process's life.
    let Some(client) = (unsafe { client.as_ref() }) else { return };
    client.part();
    copies::after_fork();
    let own = client.descriptors();
    for fd in own {
        descriptors::hide(fd, false);
    }
    if is_single_threaded() {
        // SAFETY: made by `Box::leak`, and no other thread is here to know it: files of it are opened anew before they are used.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(client).cast_mut()) });
    }
}

fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// The process's limits may be others now.
pub fn limits_changed() {
    // A vfork child's are its own, its parent's session is not.
    let client = if thread::is_vforked() { childs_own().map(|own| own.client) } else { attached() };
    if let Some(client) = client {
        client.limit_files(file_limit());
        if !thread::is_vforked() && !client.is_served() && addresses_are_short() {
            gate::alone(give_up_client);
        }
    }
}

/// Ends the session as the process ends. Other threads' calls wait for the end: an error would be the last thing
/// they see.
pub fn leave() {
    if thread::leaves_memory_behind() {
        return;
    }
    gate::shut();
    end_session();
}

/// The same by a thread that is not the program's, while that which ends waits inside.
pub fn leave_by_proxy() {
    end_session();
}

fn end_session() {
    for (fd, _) in descriptors::all() {
        drop(descriptors::remove(fd));
    }
    if let Some(client) = attached() {
        client.part();
    }
}
