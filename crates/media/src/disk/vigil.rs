//! Waiting for a disk on a processor that stays awake.
//!
//! A processor that has nothing to do is put to sleep, and in a virtual machine waking it takes as long as half a write of a fast
//! disk (docs/decisions/0034). So a waiter looks again and again, and lets all other threads run in between.
//!
//! Policy: a waiter does so while no other thread wants the processor, which shows in how long it takes to get it back, and not for
//! longer than a disk is worth that. A waiter that met either limit sleeps the next times.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A waiter that does not get the processor back for so long had to share it.
const SHARED: Duration = Duration::from_micros(100);
/// Waits that sleep after one that was not worth it.
const RESTS: u32 = 16;

/// How waits for one disk went.
#[derive(Debug)]
pub(crate) struct Vigil {
    /// A wait that takes longer is not worth a processor.
    longest: Duration,
    rests: AtomicU32,
}

impl Vigil {
    pub(crate) fn new(longest: Duration) -> Vigil {
        Vigil { longest, rests: AtomicU32::new(0) }
    }

    /// Looks until it is done, if that is worth it. Says whether it is done; the caller sleeps if it is not.
    pub(crate) fn watch(&self, is_done: impl Fn() -> bool) -> bool {
        self.watch_by(is_done, rustix::thread::sched_yield, Instant::now)
    }

    fn watch_by(&self, is_done: impl Fn() -> bool, let_run: impl Fn(), now: impl Fn() -> Instant) -> bool {
        let rests = self.rests.load(Ordering::Relaxed);
        if self.longest.is_zero() {
            return is_done();
        }
        if rests > 0 {
            self.rests.store(rests - 1, Ordering::Relaxed);
            return is_done();
        }
        let began = now();
        let mut last = began;
        while !is_done() {
            let_run();
            let looked = now();
            if looked - last > SHARED || looked - began > self.longest {
                self.rests.store(RESTS, Ordering::Relaxed);
                return is_done();
            }
            last = looked;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const LONGEST: Duration = Duration::from_millis(1);

    /// Whether it was done, and how often the processor was given away before that, which takes so long each time.
    fn watch(vigil: &Vigil, done_behind: u32, each: Duration) -> (bool, u32) {
        let (began, given) = (Instant::now(), Cell::new(0));
        let is_done = vigil.watch_by(
            || given.get() >= done_behind,
            || given.set(given.get() + 1),
            || began + each * given.get(),
        );
        (is_done, given.get())
    }

    #[test]
    fn a_fast_disk_is_waited_for_awake() {
        let vigil = Vigil::new(LONGEST);
        for _ in 0..2 {
            assert_eq!(watch(&vigil, 150, Duration::from_micros(1)), (true, 150));
        }
    }

    #[test]
    fn a_waiter_that_shares_the_processor_sleeps_and_so_do_the_next_waits() {
        let vigil = Vigil::new(LONGEST);
        assert_eq!(watch(&vigil, 150, SHARED * 2), (false, 1));
        for _ in 0..RESTS {
            assert_eq!(watch(&vigil, 150, Duration::from_micros(1)), (false, 0));
        }
        assert_eq!(watch(&vigil, 150, Duration::from_micros(1)), (true, 150));
    }

    #[test]
    fn no_waiter_stays_awake_for_a_slow_disk() {
        let vigil = Vigil::new(LONGEST);
        assert_eq!(watch(&vigil, 5000, Duration::from_micros(1)), (false, 1001));
        assert_eq!(watch(&vigil, 5000, Duration::from_micros(1)), (false, 0));
    }

    #[test]
    fn a_waiter_that_is_told_to_sleep_does() {
        let vigil = Vigil::new(Duration::ZERO);
        assert_eq!(watch(&vigil, 5, Duration::from_micros(1)), (false, 0));
    }
}
