//! The thread leaves the client.

use crate::arch;
use std::sync::atomic::{Ordering, compiler_fence};

/// Marks the thread outside and lets a signal that arrived meanwhile be delivered, by the kernel, as
/// if it had arrived now.
#[inline(always)]
pub fn leave() {
    compiler_fence(Ordering::SeqCst);
    let state = arch::thread_state();
    // SAFETY: the state is this thread's own and lives as long as the thread; a handler that runs between the two statements sees the thread
    // outside and defers nothing any more.
    let pending = unsafe {
        (*state).inside.clear();
        compiler_fence(Ordering::SeqCst);
        (&raw const (*state).pending).read_volatile()
    };
    if pending != 0 {
        crate::thread::signals::deliver_pending();
    }
}
