//! The gate a fork passes: while it is closed no other thread is inside, so that the child's copy of what
//! threads share here (locks, free lists, the heap) is one that can be used.
//!
//! A thread that is inside for long waits for something (room in the log, the daemon, another thread) and
//! then holds only what belongs to its session, which the child gives up: after a while the fork goes ahead.

use std::time::{Duration, Instant};

use cuesta_threads::{Closed, Gate, Inside};

use crate::{arch, thread};

/// Longest wait for those inside.
const PATIENCE: Duration = Duration::from_millis(200);

static GATE: Gate = Gate::new();

/// The calling thread's flag.
#[inline(always)]
fn own_flag() -> *const Inside {
    // SAFETY: the state is this thread's own and lives as long as the thread.
    unsafe { &raw const (*arch::thread_state()).inside }
}

/// The calling thread goes inside, once no thread is forking.
#[inline(always)]
pub fn enter() {
    // SAFETY: the calling thread's own.
    GATE.enter(unsafe { &*own_flag() }, thread::leave);
}

/// From now on the calling thread is waited for.
pub fn join() {
    // SAFETY: the flag lives until the thread ends, which resigns before.
    unsafe { GATE.join(own_flag()) };
}

/// The calling thread ends.
pub fn resign() {
    GATE.resign(own_flag());
}

fn close() -> Closed<'static> {
    let deadline = Instant::now() + PATIENCE;
    // SAFETY: the calling thread's own.
    GATE.close(unsafe { &*own_flag() }, thread::leave, || Instant::now() < deadline)
}

/// Closes the gate for good: the process ends.
pub fn shut() {
    // SAFETY: the calling thread's own.
    close().shut(unsafe { &*own_flag() });
}

/// Runs `work` with no other thread inside.
pub fn alone<T>(work: impl FnOnce() -> T) -> T {
    let _closed = close();
    work()
}

/// Runs `fork` with the gate closed, in the thread that is inside now. It answers 0 in the child.
pub fn pass(fork: impl FnOnce() -> isize) -> isize {
    let mut closed = close();
    let answer = fork();
    if answer == 0 {
        closed.forget_others(own_flag());
    }
    answer
}
