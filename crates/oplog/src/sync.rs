//! The one place the account's atomics and turns of waiting come from.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

/// Turns spent waiting before the processor is offered to others.
const SPINS_BEFORE_YIELD: u32 = 200;

/// One of `turns` so far in a loop that waits for another thread.
#[inline(always)]
pub(crate) fn turn(turns: u32) {
    if turns < SPINS_BEFORE_YIELD {
        std::hint::spin_loop();
    } else {
        rustix::thread::sched_yield();
    }
}
