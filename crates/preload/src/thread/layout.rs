//! The state of one thread, laid out for the entry code.

use crate::thread::vfork_delta::Delta;
use crate::users::thread_credentials::ThreadCredentials;
use cuesta_threads::Inside;

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
    /// The credentials of the thread's calls, if they were asked for.
    pub credentials: Option<Box<ThreadCredentials>>,
    /// Non-zero if the thread was cancelled within this library, and has not waited since: `CANCELLED` or
    /// `CANCELLED_AT_POINT` of `state`.
    pub cancelled: u32,
    /// Whether the call being served came by a symbol: libc has not made it a cancellation point.
    pub came_by_symbol: bool,
}
