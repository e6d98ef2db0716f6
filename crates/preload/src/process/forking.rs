//! The changes that a fork asks for: before it in the parent, after it in the child.

use crate::calls::programs::copies;
use crate::descriptors::{self, cells, record_locks};
use crate::door::proxy_state;
use crate::process::attaching::client;
use crate::process::first_calls;
use crate::process::fork_flag::{FORKED, SHARES_DESCRIPTORS, is_caught_up};
use crate::process::session::{CLIENT, MARKER, SESSION_WANTED};
use crate::process::vacating::own_descriptors;
use crate::store::{Client, shipping};
use crate::thread::{self, signals};
use std::sync::atomic::Ordering;

/// Settles what happened since this thread's last call: a fork, or the end of a vfork child.
#[inline(always)]
pub fn catch_up() {
    if !is_caught_up() {
        after_fork();
    }
    if !thread::is_vforked() && (!thread::has_guests() || is_of_suspending_child()) {
        settle_vfork();
    }
}

/// Whether what waits to be settled is a child's that is gone: another may still use what it changed.
#[cold]
fn is_of_suspending_child() -> bool {
    // SAFETY: the reference ends within this expression.
    unsafe { thread::delta() }.as_ref().is_some_and(|delta| delta.is_of_suspending_child)
}

/// A vfork child is gone: its changes go with it, or are this process's.
#[inline(always)]
pub fn settle_vfork() {
    // SAFETY: the reference ends before anything else is called.
    let delta = unsafe { thread::delta() }.take();
    if let Some(delta) = delta {
        descriptors::drop_delta(*delta);
    }
}

#[cold]
fn after_fork() {
    FORKED.store(0, Ordering::Relaxed);
    thread::forget_guests();
    proxy_state::after_fork();
    if SHARES_DESCRIPTORS.swap(false, Ordering::Relaxed) {
        // The table that says what they are is a copy: this process's changes to them would be lost on the other, and those
        // of this library's own that are closed here are the other's session.
        // SAFETY: takes a copy of the descriptors.
        unsafe {
            crate::arch::syscall(libc::SYS_unshare as usize, [libc::CLONE_FILES as usize, 0, 0, 0, 0, 0])
        };
    }
    crate::arch::after_fork();
    signals::after_fork();
    copies::after_fork();
    cuesta_threads::after_fork();
    descriptors::after_fork();
    record_locks::after_fork();
    first_calls::after_fork();
    let was_connected = shipping::after_fork();
    let parents = CLIENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or a client made by `attach`, which leaked the reference for the process's life.
    let parents = unsafe { parents.as_ref() };
    parents.into_iter().for_each(Client::after_fork_in_child);
    if was_connected || parents.is_some() {
        // The child's copies of the parent's connections would keep the parent looking alive.
        close_own_descriptors();
    }
}

fn close_own_descriptors() {
    let kept = [MARKER.load(Ordering::Relaxed), cells::file().unwrap_or(-1)];
    for fd in own_descriptors().filter(|fd| !kept.contains(fd) && !descriptors::is_kept(*fd)) {
        descriptors::hide(fd, false);
        // SAFETY: hidden descriptors are this library's; their owner has been abandoned.
        unsafe { crate::arch::syscall(libc::SYS_close as usize, [fd as usize, 0, 0, 0, 0, 0]) };
    }
}

/// A child is about to be made: state that it will share moves to where both can see it. A vfork child could
/// not do so, its descriptors being its own and its memory its parent's.
pub fn before_child() {
    if thread::is_vforked() {
        return;
    }
    if SESSION_WANTED.load(Ordering::Relaxed) {
        // Without a session the child reports what is wrong.
        let _ = client();
    }
    copies::before_child();
    if descriptors::any() {
        cells::prepare();
        for (pin, _) in descriptors::grouped(|_| true) {
            pin.share();
        }
    }
}
