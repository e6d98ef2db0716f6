//! The thread that moves content down sleeps, and a digest that fills the fast tier wakes it.

use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The thread, for itself and for the digest.
#[derive(Debug, Default)]
pub(super) struct Waking {
    thread: Mutex<Thread>,
    changed: Condvar,
}

/// The thread that moves content down.
#[derive(Debug, Default)]
struct Thread {
    /// Above this part of the fast tier, in thousandths, a digest wakes it; `None`: it is awake.
    wakes_above: Option<u64>,
    /// It is to end.
    is_over: bool,
}

/// The time or the event that ends a wait of the thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    For(Duration),
    UntilAbove(u64),
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

    /// The thread waits for so long, or until a digest finds more than `mark` thousandths of the fast tier in use. Says whether it
    /// goes on then.
    pub(super) fn wait(&self, wait: Wait) -> bool {
        let mut thread = self.thread.lock();
        match wait {
            Wait::For(time) => {
                let end = Instant::now() + time;
                while !thread.is_over && !self.changed.wait_until(&mut thread, end).timed_out() {}
            }
            Wait::UntilAbove(mark) => {
                thread.wakes_above = Some(mark);
                while !thread.is_over && thread.wakes_above.is_some() {
                    self.changed.wait(&mut thread);
                }
            }
        }
        !thread.is_over
    }

    /// The thread ends behind the part that it is at.
    pub(super) fn end(&self) {
        self.thread.lock().is_over = true;
        self.changed.notify_all();
    }
}
