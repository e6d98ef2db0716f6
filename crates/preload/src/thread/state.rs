//! The state of one thread of the application: whether it is inside, the stack the
//! client runs on, and the one signal that arrived meanwhile.
//!
//! A `vfork` child shares its parent's thread state (the parent is suspended). So the parent sets `vforked` before and clears it
//! after; changes of the child wait in `delta`.

use crate::arch;
use crate::thread::vfork_delta::Delta;
use std::sync::atomic::{AtomicU32, Ordering};

/// It ends at its next cancellation point.
const CANCELLED: u32 = 1;

/// The call it is in is one: libc has the thread end wherever that waits.
pub(crate) const CANCELLED_AT_POINT: u32 = 2;

/// A handler ended the call that was about to wait.
pub(crate) const BY_HANDLER: u32 = 1;

/// Only the wish to cancel the thread did.
pub(crate) const BY_CANCELLATION: u32 = 2;

/// Whether this thread is inside the client.
#[inline(always)]
pub fn is_inside() -> bool {
    // SAFETY: the state is this thread's own and lives as long as the thread.
    unsafe { (*arch::thread_state()).inside.is_set() }
}

/// Whether this thread runs as a vfork child on its parent's memory, or as one that does not suspend its parent.
#[inline(always)]
pub fn is_vforked() -> bool {
    // SAFETY: as above.
    let is_suspending = unsafe { (&raw const (*arch::thread_state()).vforked).read_volatile() != 0 };
    is_suspending || GUESTS.load(Ordering::Relaxed) & OWN_DESCRIPTORS != 0 && is_guest()
}

/// Children that have this memory, are no threads and do not suspend their parent: whether there were ever some with
/// descriptors of their own, and with these.
static GUESTS: AtomicU32 = AtomicU32::new(0);

const OWN_DESCRIPTORS: u32 = 1;

const SAME_DESCRIPTORS: u32 = 2;

/// The process whose memory this is, once there are such children.
static HOST: AtomicU32 = AtomicU32::new(0);

/// Such a child is about to be made.
pub fn expect_guest(shares_descriptors: bool) {
    HOST.store(rustix::process::getpid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
    GUESTS.fetch_or(if shares_descriptors { SAME_DESCRIPTORS } else { OWN_DESCRIPTORS }, Ordering::AcqRel);
}

/// Whether there may be such children.
#[inline(always)]
pub fn has_guests() -> bool {
    GUESTS.load(Ordering::Relaxed) != 0
}

/// This is the child of a fork: its memory is its own.
pub fn forget_guests() {
    GUESTS.store(0, Ordering::Relaxed);
}

#[cold]
fn is_guest() -> bool {
    rustix::process::getpid().as_raw_nonzero().get() as u32 != HOST.load(Ordering::Relaxed)
}

/// Whether another process goes on with this memory when the calling one ends.
pub fn leaves_memory_behind() -> bool {
    is_vforked() || has_guests() && is_guest()
}

/// Whether the call being served came by a symbol: if it is left to libc, it comes again, by a site.
pub fn came_by_symbol() -> bool {
    // SAFETY: as above.
    unsafe { (*arch::thread_state()).came_by_symbol }
}

/// Says how the call came that is served next.
pub fn note_came_by_symbol(came_by_symbol: bool) {
    // SAFETY: as above.
    unsafe { (*arch::thread_state()).came_by_symbol = came_by_symbol }
}

/// The pending descriptor changes of this thread's vfork child.
///
/// # Safety
/// The reference must not be held across another call of this function.
pub unsafe fn delta() -> &'static mut Option<Box<Delta>> {
    // SAFETY: thread-local, and by the caller's word not aliased.
    unsafe { &mut (*arch::thread_state()).delta }
}

/// Whether the call this thread may be about to make is restarted by handlers that want it; to be asked before
/// a handler runs, which may make such calls itself.
pub fn call_restarts() -> bool {
    // SAFETY: as in `is_inside`.
    unsafe { (&raw const (*arch::thread_state()).restarts).read_volatile() != 0 }
}

/// A handler ran while the thread was outside: whether a call that is about to wait must not.
pub fn handled(handler_restarts: bool, call_restarts: bool) -> bool {
    let state = arch::thread_state();
    let ends_calls = !(handler_restarts && call_restarts);
    // SAFETY: as in `is_inside`.
    unsafe {
        (&raw mut (*state).restarts).write_volatile(u32::from(call_restarts));
        if ends_calls {
            (&raw mut (*state).interrupted).write_volatile(BY_HANDLER);
        }
    }
    ends_calls
}

/// The thread was cancelled: a call that waits, is about to, or comes to that later, must not. `at_point`: in a call of
/// libc's during which a thread ends wherever it is.
pub fn end_wait(at_point: bool) {
    let state = arch::thread_state();
    let cancelled = if at_point { CANCELLED_AT_POINT } else { CANCELLED };
    // SAFETY: as in `is_inside`.
    unsafe {
        (&raw mut (*state).cancelled).write_volatile(cancelled);
        let interrupted = (&raw const (*state).interrupted).read_volatile();
        let by = if at_point && interrupted != BY_HANDLER { BY_CANCELLATION } else { BY_HANDLER };
        (&raw mut (*state).interrupted).write_volatile(by);
    }
}

/// Whether a handler interrupted this library's own code: the client, or what stands around a call that waits.
///
/// # Safety
/// `context` is the third argument of a running signal handler.
pub unsafe fn is_within_client(context: *mut libc::c_void) -> bool {
    // SAFETY: by the caller's word.
    let (address, is_on_stack) = unsafe { (arch::instruction_pointer(context), is_on_client_stack(context)) };
    is_inside() || is_on_stack && !arch::is_waiting_call(address)
}

/// Whether a handler interrupted code on this thread's client stack, where only this library's own runs: its very
/// first and last steps are outside.
///
/// # Safety
/// As [`is_within_client`].
pub unsafe fn is_on_client_stack(context: *mut libc::c_void) -> bool {
    let state = arch::thread_state();
    // SAFETY: the context is the running handler's; the rest as in `is_inside`.
    let (stack, own) = unsafe { (arch::stack_pointer(context), (*state).stack_bottom..(*state).stack_top) };
    own.contains(&stack)
}

/// Notes the application's signal stack: client calls made on it must stay on it, since the kernel
/// takes a thread that left its signal stack for one that may use it afresh.
pub fn set_alternate_stack(low: usize, bytes: usize) {
    let state = arch::thread_state();
    // SAFETY: as in `is_inside`.
    unsafe {
        (*state).alternate_low = low;
        (*state).alternate_high = low + bytes;
    }
}

/// Lets go of what this thread knew. Call as it ends.
pub fn forget() {
    // SAFETY: this thread's own state; nothing refers into it here.
    drop(unsafe { (*arch::thread_state()).credentials.take() });
}
