//! The event ring: the last steps of the daemon, for `cuesta trace`, the tests and the visualiser.
//!
//! A writer replaces the oldest event and never waits for a reader; a reader that is too slow sees a gap in
//! the numbers.

use cuesta_format::event::{Event, Step};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The last events, and a way to wait for the next one.
#[derive(Debug)]
pub struct Events {
    capacity: usize,
    ring: Mutex<Ring>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Ring {
    next: u64,
    events: VecDeque<Event>,
    /// No reader waits any more.
    is_closed: bool,
}

impl Events {
    /// Keeps the last `capacity` events.
    #[must_use]
    pub fn new(capacity: usize) -> Events {
        Events { capacity: capacity.max(1), ring: Mutex::default(), arrived: Condvar::new() }
    }

    /// Adds an event.
    pub fn record(&self, step: Step) {
        let time_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let mut ring = self.ring.lock();
        if ring.events.len() == self.capacity {
            ring.events.pop_front();
        }
        let number = ring.next;
        ring.next += 1;
        ring.events.push_back(Event { number, time_ns, step });
        self.arrived.notify_all();
    }

    /// There are no more: no reader waits for them.
    pub fn close(&self) {
        self.ring.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// The events from number `from` on, at most `count`, waiting up to `wait` for the first.
    #[must_use]
    pub fn read(&self, from: u64, count: usize, wait: Duration) -> Vec<Event> {
        let deadline = Instant::now() + wait;
        let mut ring = self.ring.lock();
        while ring.next <= from && !wait.is_zero() && !ring.is_closed {
            if self.arrived.wait_until(&mut ring, deadline).timed_out() {
                break;
            }
        }
        let oldest = ring.next - ring.events.len() as u64;
        let skip = from.saturating_sub(oldest) as usize;
        ring.events.iter().skip(skip).take(count).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::ArenaId;

    #[test]
    fn a_slow_reader_sees_a_gap() {
        let events = Events::new(3);
        for arena in 0..5 {
            events.record(Step::Allocate { arena: ArenaId(arena) });
        }
        let numbers = |from, count| -> Vec<u64> {
            events.read(from, count, Duration::ZERO).iter().map(|event| event.number).collect()
        };
        assert_eq!(numbers(0, 10), [2, 3, 4]);
        assert_eq!(numbers(3, 1), [3]);
        assert!(numbers(5, 10).is_empty());
    }

    /// A daemon that left waited for the reader of its trace.
    #[test]
    fn no_reader_waits_for_a_daemon_that_leaves() {
        let events = Events::new(3);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| events.read(0, 1, Duration::from_secs(1 << 30)));
            events.close();
            assert_eq!(waiting.join().unwrap(), []);
        });
    }
}
