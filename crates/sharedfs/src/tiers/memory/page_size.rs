//! Policy: which steps of an arena's memory are made as huge pages.
//!
//! A huge page is cleared in a quarter of the time of as many small ones, unless the machine has none at hand. Then
//! the kernel moves other memory out of the way for it. Or, in a virtual machine that hands free memory back, the
//! host finds it anew, small page by small page, for milliseconds. Memory that comes slowly is worth less than
//! memory that is there when it is needed. So after a slow step the next ones are small, and each slow one doubles
//! how many.

use std::time::Duration;

/// A step that took longer was slow: twice what small pages take.
const SLOW: Duration = Duration::from_millis(2);
/// Small steps after a slow one.
const PAUSE_FIRST: u32 = 16;
/// Small steps after many slow ones, at most.
const PAUSE_MAX: u32 = 512;

/// The times of the last steps.
#[derive(Debug)]
pub struct PageSizes {
    small_steps: u32,
    pause: u32,
}

impl PageSizes {
    /// Knows nothing yet: the first step is huge.
    #[must_use]
    pub fn new() -> PageSizes {
        PageSizes { small_steps: 0, pause: PAUSE_FIRST }
    }

    /// Whether the next step is to be a huge page.
    pub fn next_is_huge(&mut self) -> bool {
        let huge = self.small_steps == 0;
        self.small_steps = self.small_steps.saturating_sub(1);
        huge
    }

    /// A huge step took so long.
    pub fn took(&mut self, time: Duration) {
        if time > SLOW {
            self.small_steps = self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        } else {
            self.pause = PAUSE_FIRST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_steps_are_followed_by_ever_more_small_ones() {
        let mut sizes = PageSizes::new();
        let mut small_after = |time| {
            assert!(sizes.next_is_huge());
            sizes.took(time);
            let small = (0..PAUSE_MAX).take_while(|_| sizes.small_steps > 0 && !sizes.next_is_huge()).count();
            small as u32
        };
        let (fast, slow) = (SLOW / 2, SLOW * 2);
        assert_eq!(small_after(fast), 0);
        assert_eq!(small_after(slow), PAUSE_FIRST);
        assert_eq!(small_after(slow), PAUSE_FIRST * 2);
        assert_eq!(small_after(fast), 0);
        assert_eq!(small_after(slow), PAUSE_FIRST);
        for _ in 0..10 {
            small_after(slow);
        }
        assert_eq!(small_after(slow), PAUSE_MAX);
    }
}
