//! Migration: content of files moves from one tier to another, while programs go on (Ziggurat, §5).
//!
//! | file | idea |
//! |---|---|
//! | `part` | which blocks of a file move together |
//! | `copying` | copies them to new blocks of another tier, and flushes these |
//! | `moving` | one transaction makes the copies the file's blocks |
//! | `watched` | a digest may change the file meanwhile |
//! | `walk` | the files below a directory, one after the other |
//! | `answer` | what `cuesta migrate` asks |
//! | `draining` | all content of a tier moves to others |
//! | `levels` | policy: when content moves down by itself, and how much of the time |
//! | `coldness` | policy: which files go first |
//! | `candidates` | the coldest files of a tier |
//! | `demoting` | moves them down, a part at a time |
//!
//! The copy holds no lock and no lease, so programs read and write the file meanwhile. Before the transaction the mover takes the
//! file's lease: the sessions that had it are fenced, and so none of them knows an address any more. If a digest changed the file since
//! the copy began, the copy is thrown away.
//!
//! A crash before the transaction leaves the file as it was, for the new blocks are free again. A crash behind it finds the file moved.

mod answer;
mod candidates;
mod coldness;
mod copying;
mod demoting;
mod draining;
mod levels;
mod moving;
mod part;
mod walk;
mod watched;

use demoting::Mover;
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};
pub(crate) use watched::Watched;

/// The state of the migration of a store.
#[derive(Debug, Default)]
pub(crate) struct Migration {
    /// Held while one part of a file moves: one part does so at a time.
    one: Mutex<()>,
    pub(crate) watched: Watched,
    mover: Mutex<Mover>,
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

impl Migration {
    /// Wakes the thread if it sleeps and more of the fast tier is in use than it waits for, in thousandths.
    fn wake_above(&self, used: impl FnOnce() -> u64) {
        let mut thread = self.thread.lock();
        if thread.wakes_above.is_some_and(|mark| used() > mark) {
            thread.wakes_above = None;
            self.changed.notify_all();
        }
    }

    /// The thread waits for so long, or until a digest finds more than `mark` thousandths of the fast tier in use. Says whether it
    /// goes on then.
    fn wait(&self, wait: Wait) -> bool {
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
    fn end(&self) {
        self.thread.lock().is_over = true;
        self.changed.notify_all();
    }
}

/// The time or the event that ends a wait of the thread.
#[derive(Clone, Copy, Debug)]
enum Wait {
    For(Duration),
    UntilAbove(u64),
}
