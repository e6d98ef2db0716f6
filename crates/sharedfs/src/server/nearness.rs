//! Answering where it is asked: the thread of a connection moves to the processor that its client waits on.
//!
//! There a question is a switch to another thread and one back, because the processor has nothing else to do until the
//! answer is there. Between two processors it is two interrupts of processors that sleep, which cost several times as
//! much as what is asked, and more on a virtual machine (decision 13).
//!
//! | | where the thread may run |
//! |---|---|
//! | asked for the first time, or twice from the same processor, by a client that waits | there |
//! | asked from another one than the last time | anywhere: the client's threads take turns |
//! | asked by a client that goes on meanwhile | anywhere: there it would hold up the client |
//! | told that the client is about to end | anywhere but there |
//! | told that nothing was heard of it | anywhere, from then on: something keeps that processor for itself |

use parking_lot::Mutex;
use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The threads that are near their clients.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    threads: Mutex<Vec<Arc<Neighbour>>>,
}

#[derive(Debug)]
struct Neighbour {
    client: Pid,
    thread: Pid,
    let_go: AtomicBool,
}

impl Neighbours {
    /// The threads that answer `client` may run anywhere from now on.
    pub(super) fn let_go(&self, client: Pid, anywhere: &CpuSet) {
        for neighbour in self.threads.lock().iter().filter(|neighbour| neighbour.client == client) {
            neighbour.let_go.store(true, Ordering::Release);
            allow(Some(neighbour.thread), anywhere);
        }
    }
}

/// Where the thread of one connection runs. To be used by that thread alone.
#[derive(Debug)]
pub(super) struct Nearness<'a> {
    neighbours: &'a Neighbours,
    client: Pid,
    policy: Policy,
    /// Where it could run when it began.
    home: CpuSet,
    /// Known to the others from the first time that it moved.
    known: Option<Arc<Neighbour>>,
}

impl<'a> Nearness<'a> {
    pub(super) fn new(neighbours: &'a Neighbours, client: Pid) -> Nearness<'a> {
        // Without it this thread moves nowhere.
        let home = sched_getaffinity(None).unwrap_or_default();
        Nearness { neighbours, client, policy: Policy::default(), home, known: None }
    }

    /// Where this thread could run at first.
    pub(super) fn home(&self) -> &CpuSet {
        &self.home
    }

    /// A question was answered, by a client that waited on `processor`, or on none.
    pub(super) fn answered(&mut self, processor: Option<u32>) {
        let known = &self.known;
        if known.as_ref().is_some_and(|known| known.let_go.load(Ordering::Acquire)) {
            return;
        }
        let processor = processor.map(|processor| processor as usize);
        let is_allowed = |one: &usize| *one < CpuSet::MAX_CPU && self.home.is_set(*one);
        match self.policy.asked(processor.filter(is_allowed)) {
            Move::Stay => {}
            Move::Anywhere => allow(None, &self.home),
            Move::To(processor) => {
                self.become_known();
                let mut one = CpuSet::new();
                one.set(processor);
                allow(None, &one);
            }
        }
    }

    /// No client waits for the work that comes now: the client goes on beside it.
    pub(super) fn stand_back(&mut self) {
        let mut others = self.home;
        let here = sched_getcpu();
        if here < CpuSet::MAX_CPU {
            others.unset(here);
        }
        if others.count() > 0 {
            allow(None, &others);
            self.policy.placed = None;
        }
    }

    fn become_known(&mut self) {
        let neighbours = self.neighbours;
        self.known.get_or_insert_with(|| {
            let neighbour =
                Neighbour { client: self.client, thread: gettid(), let_go: AtomicBool::new(false) };
            let neighbour = Arc::new(neighbour);
            neighbours.threads.lock().push(Arc::clone(&neighbour));
            neighbour
        });
    }
}

impl Drop for Nearness<'_> {
    fn drop(&mut self) {
        if let Some(known) = &self.known {
            self.neighbours.threads.lock().retain(|other| !Arc::ptr_eq(other, known));
        }
        allow(None, &self.home);
    }
}

fn allow(thread: Option<Pid>, processors: &CpuSet) {
    // A processor that went away, or may no longer be used: the thread stays where it is, which is slower at worst.
    if let Err(error) = sched_setaffinity(thread, processors) {
        tracing::debug!(%error, "a thread stays where it is");
    }
}

/// The decision about a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Stay,
    Anywhere,
    To(usize),
}

/// The rule.
#[derive(Debug, Default)]
struct Policy {
    placed: Option<usize>,
    last: Option<usize>,
    asked_before: bool,
}

impl Policy {
    /// The client asked, and waited on `processor`; `None`: it did not wait, or where the thread may not run.
    fn asked(&mut self, processor: Option<usize>) -> Move {
        let is_settled = !self.asked_before || self.last == processor;
        self.asked_before = true;
        self.last = processor;
        let place = processor.filter(|_| is_settled);
        if place == self.placed {
            return Move::Stay;
        }
        self.placed = place;
        place.map_or(Move::Anywhere, Move::To)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_goes_where_it_is_asked_and_nowhere_between_two_that_take_turns() {
        let mut policy = Policy::default();
        let moves = [Some(3), Some(3), Some(1), Some(3), Some(1), Some(1), Some(1), None, Some(1)]
            .map(|from| policy.asked(from));
        use Move::{Anywhere, Stay, To};
        assert_eq!(moves, [To(3), Stay, Anywhere, Stay, Stay, To(1), Stay, Anywhere, Stay]);
    }

    #[test]
    fn a_thread_that_was_not_heard_is_let_go() {
        let neighbours = Neighbours::default();
        let client = rustix::process::getpid();
        let home = sched_getaffinity(None).unwrap();
        let mut nearness = Nearness::new(&neighbours, client);
        let here = sched_getcpu();
        nearness.answered(Some(here as u32));
        let placed = sched_getaffinity(None).unwrap();
        assert!(placed.count() == 1 && placed.is_set(here));
        neighbours.let_go(client, &home);
        assert_eq!(sched_getaffinity(None).unwrap(), home);
        nearness.answered(Some(here as u32));
        nearness.answered(Some(here as u32));
        assert_eq!(sched_getaffinity(None).unwrap(), home);
        drop(nearness);
        assert!(neighbours.threads.lock().is_empty());
    }

    #[test]
    fn a_thread_that_stands_back_is_elsewhere_and_comes_home_in_the_end() {
        let neighbours = Neighbours::default();
        let home = sched_getaffinity(None).unwrap();
        let mut nearness = Nearness::new(&neighbours, rustix::process::getpid());
        nearness.answered(Some(sched_getcpu() as u32));
        let was = sched_getcpu();
        nearness.stand_back();
        assert!(home.count() == 1 || sched_getcpu() != was);
        drop(nearness);
        assert_eq!(sched_getaffinity(None).unwrap(), home);
    }
}
