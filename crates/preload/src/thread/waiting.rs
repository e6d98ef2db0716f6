//! Calls that may wait long, made as the application itself would make them.

use crate::arch;
use crate::thread::state::{BY_CANCELLATION, BY_HANDLER, CANCELLED_AT_POINT};
use crate::thread::{gate, sanitizers};
use std::sync::atomic::{Ordering, compiler_fence};

/// Marks the thread inside, unless another is forking: then it waits for that. The caller pairs it with
/// [`crate::thread::leave`].
#[inline(always)]
pub fn enter() {
    gate::enter();
}

/// Makes a system call that may wait long as the application itself would: signals are handled at once, and
/// one whose handler does not restart calls (or any, if the call is one that never is) ends it with EINTR,
/// also if it came after the application's call and before this one. The caller holds nothing a handler
/// could need, or could leave behind by jumping away.
pub fn wait(number: i64, arguments: [usize; 6], restarts: bool) -> isize {
    sanitizers::end();
    let state = arch::thread_state();
    // SAFETY: the state is this thread's own and lives as long as the thread; a handler that runs from the first statement on finds the flags set.
    unsafe {
        (&raw mut (*state).interrupted).write_volatile(0);
        (&raw mut (*state).restarts).write_volatile(u32::from(restarts));
        compiler_fence(Ordering::SeqCst);
        (*state).inside.clear();
        compiler_fence(Ordering::SeqCst);
        if (&raw const (*state).pending).read_volatile() != 0 {
            let interrupts = (*state).pending_interrupts != 0 || !restarts;
            crate::thread::signals::deliver_pending();
            if interrupts {
                (&raw mut (*state).interrupted).write_volatile(BY_HANDLER);
            }
        }
        loop {
            // Perhaps before there was a wait to end.
            match (&raw const (*state).cancelled).read_volatile() {
                0 => {}
                CANCELLED_AT_POINT => {
                    (&raw mut (*state).cancelled).write_volatile(0);
                    crate::thread::signals::end_cancelled();
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
            let is_cancelled = (&raw const (*state).cancelled).read_volatile() == CANCELLED_AT_POINT;
            if answer == -(libc::EINTR as isize) && is_cancelled {
                continue;
            }
            enter();
            sanitizers::begin();
            return answer;
        }
    }
}
