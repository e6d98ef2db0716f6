//! The time that files get.
//!
//! A build that records can give a thread a clock of its own, which shows the same times in every run: equal runs then
//! store equal bytes.

use cuesta_format::Timestamp;
use cuesta_format::kept_names::TickTime;
use rustix::time::{ClockId, clock_gettime};

/// The present time, as exact as file times are.
#[inline]
pub fn now() -> Timestamp {
    #[cfg(feature = "record")]
    if let Some(time) = repeated::now() {
        return time;
    }
    let time = clock_gettime(ClockId::RealtimeCoarse);
    Timestamp::new(time.tv_sec, time.tv_nsec as u32)
}

/// The present time by the kernel's ticks.
#[must_use]
pub fn ticks() -> TickTime {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    TickTime((time.tv_sec * 1000 + time.tv_nsec / 1_000_000) as u32)
}

/// Milliseconds by the kernel's ticks, from some moment before the first process.
#[inline]
#[must_use]
pub fn milliseconds() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec.unsigned_abs() * 1000 + time.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(feature = "record")]
pub use repeated::RepeatedClock;

#[cfg(feature = "record")]
mod repeated {
    use cuesta_format::Timestamp;
    use std::cell::Cell;
    use std::marker::PhantomData;

    const FIRST_SECOND: i64 = 1_700_000_000;
    const STEP_NANOSECONDS: i64 = 1_000_000;

    thread_local!(static NEXT: Cell<Option<i64>> = const { Cell::new(None) });

    /// While it lives, the clock of the thread that made it begins at the same time as every such clock, and goes on
    /// by a millisecond whenever it is read.
    #[derive(Debug)]
    pub struct RepeatedClock(PhantomData<*const ()>);

    impl RepeatedClock {
        /// Starts the clock.
        #[must_use]
        pub fn start() -> RepeatedClock {
            NEXT.set(Some(FIRST_SECOND * 1_000_000_000));
            RepeatedClock(PhantomData)
        }
    }

    impl Drop for RepeatedClock {
        fn drop(&mut self) {
            NEXT.set(None);
        }
    }

    pub(super) fn now() -> Option<Timestamp> {
        let now = NEXT.get()?;
        NEXT.set(Some(now + STEP_NANOSECONDS));
        Some(Timestamp(now))
    }
}
