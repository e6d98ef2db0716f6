//! The stack on which the client runs in a thread.

use crate::arch;
use crate::thread::stacks::Stack;
use crate::thread::{gate, sanitizers, state};
use std::sync::atomic::{AtomicU32, Ordering};

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

/// Gives the thread its client stack. On failure it stays on the application's.
#[cold]
pub fn ensure_stack() {
    let state = arch::thread_state();
    // SAFETY: the thread's own state, which no other thread changes.
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
            state::forget();
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
