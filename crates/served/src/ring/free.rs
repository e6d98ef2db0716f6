//! Which lanes of a ring are free: a word of the client process alone, which its threads take lanes by.

use crate::ring::layout::LANES;
use crate::ring::sync::{Ordering, Word, mistake};

const ALL: u32 = (1 << LANES) - 1;
/// A thread waits for a lane.
const AWAITED: u32 = 1 << 31;

/// The lanes that no thread has. A bit that is set is a lane that is taken.
#[derive(Debug, Default)]
pub(crate) struct FreeLanes<W>(pub(crate) W);

impl<W: Word> FreeLanes<W> {
    /// Takes the first free lane of the set `wanted`. None is free: answers the value to sleep on.
    #[inline]
    pub(crate) fn take(&self, wanted: u32) -> Result<usize, u32> {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let free = !seen & wanted & ALL;
            let (next, lane) = match free {
                0 => (seen | AWAITED, None),
                _ => (seen | 1 << free.trailing_zeros(), Some(free.trailing_zeros() as usize)),
            };
            if next == seen {
                return Err(seen);
            }
            // The last request of this lane was answered, and the answer read.
            match self.0.exchange(seen, next, Ordering::Acquire) {
                Ok(_) => return lane.ok_or(next),
                Err(now) => seen = now,
            }
        }
    }

    /// Gives a lane back. Answers whether threads wait for one and have to be woken.
    #[inline]
    pub(crate) fn give_back(&self, lane: usize) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let next = seen & !(1 << lane) & !AWAITED;
            match self.0.exchange(seen, next, Ordering::Release) {
                Ok(_) => return seen & AWAITED != 0 && !mistake("waking a thread that waits for a lane"),
                Err(now) => seen = now,
            }
        }
    }
}
