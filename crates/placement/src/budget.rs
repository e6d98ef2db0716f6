//! Policy: how much of the time the mover works, as programs bear it.
//!
//! A level allows a share of the time. If more than one of a hundred requests of programs waited long since the last part moved, the share
//! is halved, down to a sixteenth of the time; else it grows again by a sixteenth. In an emergency programs wait for the mover itself, so it
//! works all the time.

use crate::levels::Level;
use std::time::Duration;

/// Shares are counted in so many parts of the time.
const PARTS: u32 = 16;

/// A request that waited so long waited long.
pub const LONG_WAIT: Duration = Duration::from_millis(4);

/// How much of the time the mover may work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    parts: u32,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { parts: PARTS }
    }
}

impl Budget {
    /// Since the last part moved programs asked so many times, and waited long for so many answers.
    pub fn note(&mut self, requests: u64, long_waits: u64) {
        self.parts = match long_waits * 100 > requests {
            true => (self.parts / 2).max(1),
            false => (self.parts + 1).min(PARTS),
        };
    }

    /// How long the mover pauses behind a part that took so long.
    #[must_use]
    pub fn pause_after(self, level: Level, took: Duration) -> Duration {
        let allowed = match level {
            Level::Rest | Level::Background => PARTS / 4,
            Level::Foreground | Level::Emergency => PARTS,
        };
        let parts = if level == Level::Emergency { PARTS } else { allowed.min(self.parts) };
        took * (PARTS - parts) / parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mover_works_less_while_programs_wait_long_and_more_again_when_they_do_not() {
        let took = Duration::from_millis(16);
        let mut budget = Budget::default();
        let pauses = |budget: Budget| {
            [Level::Background, Level::Foreground].map(|level| budget.pause_after(level, took))
        };
        assert_eq!(pauses(budget), [took * 3, Duration::ZERO]);
        budget.note(1000, 11);
        assert_eq!(pauses(budget), [took * 3, took]);
        for _ in 0..9 {
            budget.note(100, 50);
        }
        assert_eq!(pauses(budget), [took * 15, took * 15]);
        assert_eq!(budget.pause_after(Level::Emergency, took), Duration::ZERO);
        for _ in 0..3 {
            budget.note(0, 0);
        }
        assert_eq!(pauses(budget), [took * 3, took * 3]);
        budget.note(1000, 10);
        assert_eq!(budget, Budget { parts: 5 });
    }
}
