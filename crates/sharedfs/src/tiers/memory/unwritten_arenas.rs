//! The arenas of lower tiers that the disk may lack something of, below a store in memory.
//!
//! No program waits for these disks. A thread of the daemon flushes the arenas a moment later and learns when a disk fails
//! (`background::tier_write_back`).

use cuesta_format::ArenaId;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The arenas, for the digest that writes them and the thread that flushes them.
#[derive(Debug, Default)]
pub(crate) struct UnwrittenArenas {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arenas: BTreeSet<ArenaId>,
    is_closed: bool,
}

impl UnwrittenArenas {
    /// Content was written to an arena.
    pub(crate) fn note(&self, arena: ArenaId) {
        let mut state = self.state.lock();
        let was_empty = state.arenas.is_empty();
        state.arenas.insert(arena);
        if was_empty {
            self.changed.notify_all();
        }
    }

    /// Waits until an arena is noted, and for `delay` more. Takes those noted by then. `None`: the daemon leaves.
    pub(crate) fn take_after(&self, delay: Duration) -> Option<BTreeSet<ArenaId>> {
        let mut state = self.state.lock();
        while state.arenas.is_empty() && !state.is_closed {
            self.changed.wait(&mut state);
        }
        let end = Instant::now() + delay;
        while !state.is_closed && !self.changed.wait_until(&mut state, end).timed_out() {}
        (!state.is_closed).then(|| std::mem::take(&mut state.arenas))
    }

    /// The daemon leaves.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn arenas_are_taken_once_and_a_waiter_ends_when_the_daemon_leaves() {
        let unwritten = Arc::new(UnwrittenArenas::default());
        [3, 1, 3].into_iter().for_each(|arena| unwritten.note(ArenaId(arena)));
        assert_eq!(unwritten.take_after(Duration::ZERO), Some(BTreeSet::from([ArenaId(1), ArenaId(3)])));
        let waiter = std::thread::spawn({
            let unwritten = Arc::clone(&unwritten);
            move || unwritten.take_after(Duration::ZERO)
        });
        unwritten.close();
        assert_eq!(waiter.join().unwrap(), None);
    }
}
