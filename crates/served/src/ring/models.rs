//! The lanes of a ring under a model checker.
//!
//! The payload here is two cells that are no atomics: a request that is written while the daemon reads it, an answer that
//! is read before it is whole, or twice, fails a model by itself. A thread that sleeps with no other left to wake it does, too.
//!
//! | model | what holds |
//! |---|---|
//! | `an_answer_is_of_its_request` | requests one after the other are each run once, and each answer is that of its request; both ends sleep and are woken |
//! | `a_withdrawn_request_is_never_run` | of the withdrawal and the taking one succeeds; a lane is as good as new after a withdrawal |
//! | `threads_share_lanes` | a lane has one thread at a time, and a thread that waits for a lane gets one |
//!
//! [`every_ordering_and_check_is_needed`] makes each ordering weaker and leaves out each named check; all of that is noticed.

use crate::ring::free::FreeLanes;
use crate::ring::lane::{ClientEnd, DaemonEnd};
use cuesta_model::{Arc, Futex, Racy, explore, thread, unnoticed_mistakes};

/// One lane, and what lies in it.
struct Lane {
    word: Futex,
    request: Racy<u64>,
    answer: Racy<u64>,
    /// How many requests were run.
    runs: Racy<u64>,
}

impl Lane {
    fn new() -> Lane {
        Lane { word: Futex::new(0), request: Racy::new(0), answer: Racy::new(0), runs: Racy::new(0) }
    }

    fn client(&self) -> ClientEnd<'_, Futex> {
        ClientEnd(&self.word)
    }

    /// Stores a request and wakes the daemon.
    fn ask(&self, request: u64) {
        // SAFETY: the model checks that no other thread is there.
        if self.client().ask(|| self.request.with_mut(|place| unsafe { *place = request })) {
            self.word.wake_all();
        }
    }

    /// Waits for the answer as the client does.
    fn wait(&self) -> u64 {
        while !self.client().is_answered() {
            if let Some(seen) = self.client().begin_sleep() {
                self.word.wait(seen);
            }
        }
        // SAFETY: as above.
        self.answer.with(|answer| unsafe { *answer })
    }

    /// Serves so many requests as the daemon does.
    fn serve(&self, requests: u64) {
        let daemon = DaemonEnd(&self.word);
        let mut served = 0;
        while served < requests {
            if daemon.take().expect("both ends keep the protocol") {
                // SAFETY: as above.
                let request = self.request.with(|request| unsafe { *request });
                // SAFETY: as above.
                self.runs.with_mut(|runs| unsafe { *runs += 1 });
                // SAFETY: as above.
                let store = || self.answer.with_mut(|answer| unsafe { *answer = request * 10 });
                if daemon.answer(store).expect("both ends keep the protocol") {
                    self.word.wake_all();
                }
                served += 1;
            } else if let Some(seen) = daemon.begin_sleep() {
                self.word.wait(seen);
            }
        }
    }
}

/// Runs `act` in a thread of its own.
fn aside<T, R: 'static>(shared: &Arc<T>, act: impl FnOnce(&T) -> R + 'static) -> thread::JoinHandle<R>
where
    T: 'static,
{
    let shared = shared.clone();
    thread::spawn(move || act(&shared))
}

#[test]
fn an_answer_is_of_its_request() {
    explore("an_answer_is_of_its_request", || {
        let lane = Arc::new(Lane::new());
        let daemon = aside(&lane, |lane| lane.serve(2));
        for request in [1, 2] {
            lane.ask(request);
            assert_eq!(lane.wait(), request * 10);
        }
        daemon.join().unwrap();
        // SAFETY: the daemon has ended.
        assert_eq!(lane.runs.with(|runs| unsafe { *runs }), 2);
    });
}

#[test]
fn a_withdrawn_request_is_never_run() {
    explore("a_withdrawn_request_is_never_run", || {
        let lane = Arc::new(Lane::new());
        let daemon = aside(&lane, |lane| lane.serve(1));
        lane.ask(1);
        let is_undone = lane.client().withdraw();
        if is_undone {
            // A withdrawn request does not count: this one is the daemon's only one.
            lane.ask(2);
            assert_eq!(lane.wait(), 20);
        } else {
            assert_eq!(lane.wait(), 10);
        }
        daemon.join().unwrap();
        // SAFETY: the daemon has ended.
        assert_eq!(lane.runs.with(|runs| unsafe { *runs }), 1);
    });
}

/// Threads that share lanes, each with a cell that only the thread that has the lane uses.
struct Lanes {
    free: FreeLanes<Futex>,
    cells: [Racy<u64>; 2],
}

impl Lanes {
    fn use_one(&self, wanted: u32) {
        let lane = loop {
            match self.free.take(wanted) {
                Ok(lane) => break lane,
                Err(seen) => self.free.0.wait(seen),
            }
        };
        // SAFETY: the model checks that no other thread is there.
        self.cells[lane].with_mut(|cell| unsafe { *cell += 1 });
        if self.free.give_back(lane) {
            self.free.0.wake_all();
        }
    }
}

#[test]
fn threads_share_lanes() {
    explore("threads_share_lanes", || {
        let lanes = Arc::new(Lanes { free: FreeLanes(Futex::new(0)), cells: [Racy::new(0), Racy::new(0)] });
        let others = [1, 1].map(|wanted| aside(&lanes, move |lanes| lanes.use_one(wanted)));
        lanes.use_one(3);
        others.into_iter().for_each(|other| other.join().unwrap());
        // SAFETY: the threads have ended.
        let used = lanes.cells.each_ref().map(|cell| cell.with(|cell| unsafe { *cell }));
        assert_eq!(used.iter().sum::<u64>(), 3);
    });
}

#[test]
fn every_ordering_and_check_is_needed() {
    let unnoticed = unnoticed_mistakes(&[
        ("ring::models::an_answer_is_of_its_request", an_answer_is_of_its_request),
        ("ring::models::a_withdrawn_request_is_never_run", a_withdrawn_request_is_never_run),
        ("ring::models::threads_share_lanes", threads_share_lanes),
    ]);
    assert_eq!(unnoticed, Vec::<String>::new());
}
