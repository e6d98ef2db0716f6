//! The thread that moves content sleeps, and a digest that fills the fast tier wakes it.

use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The thread, for itself and for the digest.
#[derive(Debug, Default)]
pub(crate) struct Waking {
    thread: Mutex<Thread>,
    changed: Condvar,
}

/// The thread that moves content.
#[derive(Debug, Default)]
struct Thread {
    /// Above this part of the fast tier, in thousandths, a digest wakes it; `None`: it is awake.
    wakes_above: Option<u64>,
    /// It is to end.
    is_over: bool,
}

/// The time or the event that ends a wait of the thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// Longest.
    pub(super) time: Duration,
    /// It ends if a digest finds more of the fast tier in use than this, in thousandths.
    pub(super) above: Option<u64>,
}

impl Waking {
    /// Wakes the thread if it sleeps and more of the fast tier is in use than it waits for, in thousandths.
    pub(super) fn wake_above(&self, used: impl FnOnce() -> u64) {
        let mut thread = self.thread.lock();
        if thread.wakes_above.is_some_and(|mark| used() > mark) {
            thread.wakes_above = None;
            self.changed.notify_all();
        }
    }

    /// The thread waits. Says whether it goes on then.
    pub(super) fn wait(&self, wait: Wait) -> bool {
        let mut thread = self.thread.lock();
        thread.wakes_above = wait.above;
        let end = Instant::now() + wait.time;
        let is_woken = |thread: &Thread| wait.above.is_some() && thread.wakes_above.is_none();
        while !thread.is_over && !is_woken(&thread) && !self.changed.wait_until(&mut thread, end).timed_out()
        {
        }
        thread.wakes_above = None;
        !thread.is_over
    }

    /// The thread ends behind the part that it is at.
    pub(super) fn end(&self) {
        self.thread.lock().is_over = true;
        self.changed.notify_all();
    }
}
