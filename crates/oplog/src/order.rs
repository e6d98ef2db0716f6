//! Where entries lie and when they count: places are handed out in one order, and entries complete in it.
//!
//! | | |
//! |---|---|
//! | `reserved` | every place below has an owner; grows by one atomic add |
//! | `completed` | every entry below is whole and durable; moved by the thread with the turn: the owner of the place there |
//! | `handed_in` | entries that are whole before their turn: the thread that completes the one in front takes them along |
//!
//! So no two entries overlap, and none is announced before one that lies in front of it. A thread that has reserved must complete:
//! all behind it wait. But they wait for its work alone and not for each other's turns, each of which would wait for the
//! scheduler where there are more threads than processors.

use crate::handed_in::HandedIn;
use crate::sync::{AtomicU64, Ordering, mistake, turn};
use cuesta_format::LogPosition;

/// Entries that one thread completes in its turn, at most: it wants to return, too.
const TAKEN_ALONG_MAX: u64 = 64;

/// The account of a log's entries.
#[derive(Debug)]
pub(crate) struct Order {
    reserved: AtomicU64,
    completed: AtomicU64,
    pub(crate) handed_in: HandedIn,
}

impl Order {
    pub(crate) fn new(start: LogPosition) -> Order {
        Order {
            reserved: AtomicU64::new(start.0),
            completed: AtomicU64::new(start.0),
            handed_in: HandedIn::default(),
        }
    }

    /// The next place, of `bytes` that were admitted.
    #[inline]
    pub(crate) fn reserve(&self, bytes: u64) -> LogPosition {
        LogPosition(self.reserved.fetch_add(bytes, Ordering::Relaxed))
    }

    /// The entry between the two is written and durable: waits for those in front of it, has `announce` store where
    /// others see it that everything up to a position counts, so many entries more, and lets the next one go.
    /// Another thread may do so in this one's place.
    #[inline]
    pub(crate) fn complete(
        &self,
        start: LogPosition,
        end: LogPosition,
        announce: impl FnOnce(LogPosition, u64, Ordering),
    ) {
        let is_our_turn = self.completed.load(Ordering::Acquire) == start.0
            || mistake("waiting for earlier entries")
            || self.wait(start, end);
        if !is_our_turn {
            return;
        }
        let (mut upto, mut entries) = (end, 1);
        while self.reserved.load(Ordering::Relaxed) != upto.0 && entries < TAKEN_ALONG_MAX {
            let Some(end) = self.handed_in.take(upto) else { break };
            (upto, entries) = (end, entries + 1);
        }
        // While these entries have not completed no later one can, so what is announced only grows.
        announce(upto, entries, Ordering::Release);
        self.completed.store(upto.0, Ordering::Release);
    }

    /// Waits until the entry may complete, which is answered, or another thread has completed it.
    #[cold]
    fn wait(&self, start: LogPosition, end: LogPosition) -> bool {
        let is_handed_in = self.handed_in.put(start, end);
        let mut turns = 0;
        loop {
            let completed = self.completed.load(Ordering::Acquire);
            if completed == start.0 {
                // No thread took it along, and none will.
                if is_handed_in && !mistake("taking back what is handed in") {
                    self.handed_in.take(start);
                }
                return true;
            }
            if completed >= end.0 {
                return false;
            }
            turns += 1;
            turn(turns);
        }
    }

    /// Lets the entry count although earlier ones may not: the mistake the crash explorer must notice.
    #[cold]
    pub(crate) fn complete_early(&self, end: LogPosition) {
        self.completed.fetch_max(end.0, Ordering::AcqRel);
    }

    /// Everything below is written and durable.
    pub(crate) fn completed(&self) -> LogPosition {
        LogPosition(self.completed.load(Ordering::Acquire))
    }

    /// Starts again at `position`; nothing is reserved meanwhile.
    pub(crate) fn restart(&self, position: LogPosition) {
        self.reserved.store(position.0, Ordering::Relaxed);
        self.completed.store(position.0, Ordering::Release);
    }
}
