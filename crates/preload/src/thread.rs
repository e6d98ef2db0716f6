//! What one thread of the application keeps for this library: whether it is inside, the stack the
//! client runs on, and the one signal that arrived meanwhile.
//!
//! A `vfork` child shares its parent's thread state (the parent is suspended), so `vforked` is set by
//! the parent before and cleared by it after; what the child changes waits in `delta`.

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use cuesta_threads::Inside;

use crate::arch;
use crate::credentials::{self, Known};
use crate::descriptors::Delta;
use crate::gate;
use crate::sanitizers;
use crate::stacks::Stack;

/// One thread's state; zero-initialised by the loader, laid out for the entry code.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ThreadState {
    /// Non-zero while the client runs: calls pass to the kernel, handlers wait.
    pub inside: Inside,
    /// Non-zero between a vfork and the moment the parent runs again.
    pub vforked: u32,
    /// The client's stack, or zero before the first served call.
    pub stack_top: usize,
    /// Its lower end.
    pub stack_bottom: usize,
    /// The application's signal stack, or zero.
    pub alternate_low: usize,
    /// Its upper end.
    pub alternate_high: usize,
    /// Non-zero if a signal waits until this thread leaves the client.
    pub pending: u32,
    /// Non-zero if that signal interrupts calls: its handler was set without SA_RESTART.
    pub pending_interrupts: u32,
    /// Non-zero if a handler ran that ends the call `wait` is about to make.
    pub interrupted: u32,
    /// Zero if that call is ended by every handler.
    pub restarts: u32,
    /// The mask to restore then.
    pub pending_mask: u64,
    /// Descriptor changes of a vfork child.
    pub delta: Option<Box<Delta>>,
    /// What the thread's calls are judged by, if it was asked for.
    pub credentials: Option<Box<Known>>,
    /// Non-zero if the thread was cancelled within this library, and has not waited since: [`CANCELLED`] or
    /// [`CANCELLED_AT_ONCE`].
    pub cancelled: u32,
    /// Whether the call being served came by a symbol: libc has not made it a cancellation point.
    pub came_by_symbol: bool,
}

/// It ends at its next cancellation point.
const CANCELLED: u32 = 1;
/// The call it is in is one: libc has the thread end wherever that waits.
const CANCELLED_AT_ONCE: u32 = 2;
/// A handler ended the call that was about to wait.
const BY_HANDLER: u32 = 1;
/// Only the wish to cancel the thread did.
const BY_CANCELLATION: u32 = 2;

/// The thread-exit key, plus one; zero until the constructor has made it.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);

/// Makes sure that threads give back their stacks. Call once.
pub fn prepare() {
    let mut key = 0;
    // SAFETY: `release` is a valid destructor for the values `ensure_stack` stores.
    if unsafe { libc::pthread_key_create(&mut key, Some(release)) } == 0 {
        EXIT_KEY.store(key + 1, Ordering::Relaxed);
    }
}

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
pub fn note_way(came_by_symbol: bool) {
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

/// Marks the thread inside, unless another is forking: then it waits for that. The caller pairs it with
/// [`leave`].
#[inline(always)]
pub fn enter() {
    gate::enter();
}

/// Marks the thread outside and lets a signal that arrived meanwhile be delivered, by the kernel, as
/// if it had arrived now.
#[inline(always)]
pub fn leave() {
    compiler_fence(Ordering::SeqCst);
    let state = arch::thread_state();
    // SAFETY: as in `is_inside`; a handler that runs between the two statements sees the thread
    // outside and defers nothing any more.
    let pending = unsafe {
        (*state).inside.clear();
        compiler_fence(Ordering::SeqCst);
        (&raw const (*state).pending).read_volatile()
    };
    if pending != 0 {
        crate::signals::deliver_pending();
    }
}

/// Makes a system call that may wait long as the application itself would: signals are handled at once, and
/// one whose handler does not restart calls (or any, if the call is one that never is) ends it with EINTR,
/// also if it came after the application's call and before this one. The caller holds nothing a handler
/// could need, or could leave behind by jumping away.
pub fn wait(number: i64, arguments: [usize; 6], restarts: bool) -> isize {
    sanitizers::end();
    let state = arch::thread_state();
    // SAFETY: as in `is_inside`; a handler that runs from the first statement on finds the flags set.
    unsafe {
        (&raw mut (*state).interrupted).write_volatile(0);
        (&raw mut (*state).restarts).write_volatile(u32::from(restarts));
        compiler_fence(Ordering::SeqCst);
        (*state).inside.clear();
        compiler_fence(Ordering::SeqCst);
        if (&raw const (*state).pending).read_volatile() != 0 {
            let interrupts = (*state).pending_interrupts != 0 || !restarts;
            crate::signals::deliver_pending();
            if interrupts {
                (&raw mut (*state).interrupted).write_volatile(BY_HANDLER);
            }
        }
        loop {
            // Perhaps before there was a wait to end.
            match (&raw const (*state).cancelled).read_volatile() {
                0 => {}
                CANCELLED_AT_ONCE => {
                    (&raw mut (*state).cancelled).write_volatile(0);
                    crate::signals::end_cancelled();
                    // It does not let itself be cancelled.
                    if (&raw const (*state).interrupted).read_volatile() == BY_CANCELLATION {
                        (&raw mut (*state).interrupted).write_volatile(0);
                    }
                }
                _ => {
                    (&raw mut (*state).cancelled).write_volatile(0);
                    (&raw mut (*state).interrupted).write_volatile(BY_HANDLER);
                }
            }
            let answer = arch::waiting_call(number as usize, &arguments, &raw const (*state).interrupted);
            let is_cancelled = (&raw const (*state).cancelled).read_volatile() == CANCELLED_AT_ONCE;
            if answer == -(libc::EINTR as isize) && is_cancelled {
                continue;
            }
            enter();
            sanitizers::begin();
            return answer;
        }
    }
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

/// The thread was cancelled: a call that waits, is about to, or comes to that later, must not. `at_once`: in a call of
/// libc's during which a thread ends wherever it is.
pub fn end_wait(at_once: bool) {
    let state = arch::thread_state();
    let cancelled = if at_once { CANCELLED_AT_ONCE } else { CANCELLED };
    // SAFETY: as in `is_inside`.
    unsafe {
        (&raw mut (*state).cancelled).write_volatile(cancelled);
        let interrupted = (&raw const (*state).interrupted).read_volatile();
        let by = if at_once && interrupted != BY_HANDLER { BY_CANCELLATION } else { BY_HANDLER };
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

/// Gives the thread its client stack. On failure it stays on the application's.
#[cold]
pub fn ensure_stack() {
    let state = arch::thread_state();
    // SAFETY: the thread's own state, which nobody else changes.
    unsafe {
        if (*state).stack_top != 0 {
            return;
        }
        let Some(stack) = Stack::take() else { return };
        (*state).stack_bottom = stack.bottom();
        (*state).stack_top = stack.top();
        let key = EXIT_KEY.load(Ordering::Relaxed);
        if key != 0 {
            libc::pthread_setspecific(key - 1, stack.name() as *const libc::c_void);
            gate::join();
        }
    }
}

extern "C" fn release(name: *mut libc::c_void) {
    let state = arch::thread_state();
    // SAFETY: runs in the exiting thread, outside the client (thread-exit destructors are called on
    // the thread's own stack); a later call takes another stack.
    unsafe {
        let stack = Stack::named(name as usize);
        if (*state).stack_top == stack.top() && !(*state).inside.is_set() {
            gate::resign();
            sanitizers::begin();
            credentials::forget();
            if sanitizers::is_watched() {
                crate::memory::end_thread();
            }
            sanitizers::end();
            (*state).stack_top = 0;
            (*state).stack_bottom = 0;
            stack.leave();
        }
    }
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
