//! Where entries lie and when they count: places are handed out in one order, and entries complete in it.
//!
//! | | |
//! |---|---|
//! | `reserved` | every place below is somebody's; grows by one atomic add |
//! | `completed` | every entry below is whole and durable; only the owner of the place at `completed` moves it |
//!
//! So no two entries overlap, and none is announced before one that lies in front of it. Who has reserved must complete:
//! all behind it wait.

use crate::sync::{AtomicU64, Ordering, mistake, turn};
use cuesta_format::LogPosition;

/// The account of a log's entries.
#[derive(Debug)]
pub(crate) struct Order {
    reserved: AtomicU64,
    completed: AtomicU64,
}

impl Order {
    pub(crate) fn new(start: LogPosition) -> Order {
        Order { reserved: AtomicU64::new(start.0), completed: AtomicU64::new(start.0) }
    }

    /// The next place, of `bytes` that were admitted.
    #[inline]
    pub(crate) fn reserve(&self, bytes: u64) -> LogPosition {
        LogPosition(self.reserved.fetch_add(bytes, Ordering::Relaxed))
    }

    /// The entry between the two is written and durable: waits for those in front of it, has `announce` store
    /// where others see it that everything up to here counts, and lets the next one go.
    #[inline]
    pub(crate) fn complete(
        &self,
        start: LogPosition,
        end: LogPosition,
        announce: impl FnOnce(LogPosition, Ordering),
    ) {
        let mut turns = 0;
        while self.completed.load(Ordering::Acquire) != start.0 && !mistake("waiting for earlier entries") {
            turns += 1;
            turn(turns);
        }
        // While this entry has not completed no later one can, so what is announced only grows.
        announce(end, Ordering::Release);
        self.completed.store(end.0, Ordering::Release);
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
