//! When a ring is worth making, and how long its ends look and sleep: the policy. The mechanism is elsewhere.
//!
//! | end | looks before it sleeps | |
//! |---|---|---|
//! | client, for its answer | for [`CLIENT_LOOK`] | if it need not wake the daemon, which is on another processor. After looks in vain it leaves out 1, 2, 4, … 32 |
//! | daemon, for the next request | for [`QUICK`] | if it is far from its client ([`super::placement`]) |

use std::time::{Duration, Instant};

/// A process that has asked so often by the socket asks for a ring. A ring costs as much as it saves in so many calls.
pub(crate) const CALLS_BEFORE_RING: u32 = 12;
/// A client that waits for an answer looks after so long whether the daemon is still there.
pub(crate) const CLIENT_SLEEP: Duration = Duration::from_millis(30);
/// A thread that waits for a lane looks for another way after so long,
pub(crate) const LANE_WAIT: Duration = Duration::from_millis(10);
/// and goes by the socket, if that is free, when it has waited so often.
pub(crate) const LANE_WAITS: u32 = 2;
/// The daemon's thread of a lane looks after so long whether its connection has ended. It is woken when that happens,
/// but a hostile client can have the kernel wake another word instead.
pub(crate) const DAEMON_SLEEP: Duration = Duration::from_secs(5);
/// A client looks so long for its answer: most calls take a few microseconds, a write of 32 KiB ten.
const CLIENT_LOOK: Duration = Duration::from_micros(25);
/// A request that comes so soon after the last answer is worth looking for: about what two sleeps and wake-ups cost.
pub(crate) const QUICK: Duration = Duration::from_micros(12);
/// The same of a client that had to wake up first.
pub(crate) const QUICK_AFTER_SLEEP: Duration = Duration::from_micros(20);
/// Looks in vain that are counted. The client leaves out half of this power of two, at most.
const MISSES_MAX: u32 = 6;
/// Looks between two looks at the clock.
const LOOKS_AT_ONCE: u32 = 8;

/// Whether the client looks for its next answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looking {
    /// Looks in vain since the last one that found something.
    misses: u32,
    /// Calls to come without a look.
    skips: u32,
}

impl Looking {
    /// As it was kept by [`Looking::to_bits`].
    pub(crate) fn from_bits(bits: u32) -> Looking {
        Looking { misses: bits >> 16, skips: bits & 0xffff }
    }

    pub(crate) fn to_bits(self) -> u32 {
        self.misses << 16 | self.skips
    }

    /// Looks for an answer, if it is time to.
    pub(crate) fn look(&mut self, is_there: impl Fn() -> bool) {
        match self.skips {
            0 => self.note(look(CLIENT_LOOK, is_there)),
            more => self.skips = more - 1,
        }
    }

    fn note(&mut self, is_found: bool) {
        self.misses = if is_found { 0 } else { (self.misses + 1).min(MISSES_MAX) };
        self.skips = if is_found { 0 } else { (1 << self.misses) / 2 };
    }
}

/// Looks until something is there, but no longer than `longest`. Answers whether it is.
pub(crate) fn look(longest: Duration, is_there: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    loop {
        for _ in 0..LOOKS_AT_ONCE {
            if is_there() {
                return true;
            }
            std::hint::spin_loop();
        }
        if began.elapsed() >= longest {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn looks_in_vain_become_rare_and_one_that_finds_something_ends_that() {
        let (mut looking, is_there) = (Looking::default(), Cell::new(false));
        let mut looks = |calls: usize| {
            let looked = |_: &usize| {
                let looked = Cell::new(false);
                looking = Looking::from_bits(looking.to_bits());
                looking.look(|| {
                    looked.set(true);
                    is_there.get()
                });
                looked.get()
            };
            (0..calls).filter(looked).count()
        };
        assert_eq!(looks(200), 10);
        assert!((9..=10).contains(&looks(330)), "one call in 33");
        is_there.set(true);
        looks(65);
        assert_eq!(looks(100), 100);
        is_there.set(false);
        assert_eq!(looks(2), 1);
    }
}
