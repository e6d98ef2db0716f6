//! The one place atomics and turns of waiting come from, so that a model checker can stand in for them.

#[cfg(feature = "model")]
pub(crate) use cuesta_model::{AtomicU64, Ordering, mistake};
#[cfg(not(feature = "model"))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

/// Turns spent waiting before the processor is offered to others.
#[cfg(not(feature = "model"))]
const SPINS_BEFORE_YIELD: u32 = 200;

/// One of `turns` so far in a loop that waits for another thread.
#[inline(always)]
pub(crate) fn turn(turns: u32) {
    #[cfg(feature = "model")]
    {
        let _ = turns;
        cuesta_model::yield_now();
    }
    #[cfg(not(feature = "model"))]
    if turns < SPINS_BEFORE_YIELD {
        std::hint::spin_loop();
    } else {
        rustix::thread::sched_yield();
    }
}

/// Whether the model leaves out the check called so, to show that it is needed.
#[cfg(not(feature = "model"))]
#[inline(always)]
pub(crate) const fn mistake(_name: &str) -> bool {
    false
}
