//! Descriptors that are on their way to processes. The daemon has a copy of each until the message is sent and the copy dropped: a process
//! may have received its own, used it and ended by then. Its locks are free once the copy is gone, too.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A message that is not sent by then is not waited for: its process does not read, and has no descriptor.
const PATIENCE: Duration = Duration::from_secs(1);

/// Those that are being sent.
#[derive(Default)]
pub(crate) struct Sendings {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    active: BTreeSet<u64>,
}

/// One of them, for as long as this lives: the copy must be dropped before it.
pub(crate) struct Sending<'s> {
    all: &'s Sendings,
    number: u64,
}

impl Sendings {
    /// A descriptor is about to be sent.
    pub(crate) fn begin(&self) -> Sending<'_> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.active.insert(number);
        Sending { all: self, number }
    }

    /// Waits until those that have begun by now have ended.
    pub(crate) fn wait(&self) {
        self.wait_until(Instant::now() + PATIENCE);
    }

    /// Whether they have by the deadline.
    fn wait_until(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        let begun = state.next;
        while state.active.first().is_some_and(|&oldest| oldest < begun) {
            if self.ended.wait_until(&mut state, deadline).timed_out() {
                return false;
            }
        }
        true
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.all.state.lock().active.remove(&self.number);
        self.all.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_sent_is_waited_for() {
        let sendings = Sendings::default();
        let have_ended = || sendings.wait_until(Instant::now());
        assert!(have_ended());
        let (first, second) = (sendings.begin(), sendings.begin());
        assert!(!have_ended());
        drop(first);
        assert!(!have_ended());
        drop(second);
        assert!(have_ended());
    }
}
