//! How far the log is on the disk, where that takes a wait: on medium `block` (group commit). It may be there by its own pages,
//! or in the commit file ([`crate::commit_file`]), which holds a part of it at most.
//!
//! Entries complete in memory, as on every medium, and the kernel may write their pages in any order: an entry says itself
//! whether it is whole, so that whatever subset a power cut leaves, the scan finds a prefix. A thread that must know that its entries
//! are in that prefix has them written: one thread at a time, for all that are complete then. The others sleep, and all of
//! them look again when it is done. Of those that are not served one writes for the next ones.
//!
//! Threads that were served together come back together, some microseconds apart. So the first writer waits until as many
//! are there as the last write served, for a part of the time a write takes at most: without that, the first one back
//! writes for itself alone, and the others wait for two writes. A thread that is alone does not wait for others.

use cuesta_format::LogPosition;
use cuesta_media::wait::{wait, wake_all};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The part of a write's time that others are waited for.
const GATHERING_PART: u64 = 2;
/// A sleeper is woken when a write ends: in order, none sleeps that long.
const LOOK: Duration = Duration::from_millis(250);

/// The disk did not take the log, and how much of it is there is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the disk does not take the log")]
pub struct LogUnwritten;

/// A write that the disk took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The log's pages, from where they were settled.
    ByItsPages,
    /// A piece of the commit file.
    ByTheCommitFile,
}

/// The account of a log.
#[derive(Debug)]
pub(crate) struct Durable {
    until: AtomicU64,
    /// Everything below is digested, or on the disk by the log's own pages.
    settled: AtomicU64,
    /// How often the log started again: a write before that says nothing of the log's present bytes.
    restarts: Mutex<u64>,
    writing: AtomicBool,
    has_failed: AtomicBool,
    /// Writes that ended; sleeping threads wait for the next one.
    writes: AtomicU32,
    /// Threads that want to be served.
    waiting: AtomicU32,
    /// How many the last write served, and what it took.
    served: AtomicU32,
    served_before: AtomicU32,
    took_ns: AtomicU64,
}

impl Durable {
    pub(crate) fn new(start: LogPosition) -> Durable {
        Durable {
            until: AtomicU64::new(start.0),
            settled: AtomicU64::new(start.0),
            restarts: Mutex::new(0),
            writing: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            writes: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            served: AtomicU32::new(0),
            served_before: AtomicU32::new(0),
            took_ns: AtomicU64::new(0),
        }
    }

    /// Returns once everything is on the disk that was complete when it was called. `completed` says what is, `write` has the disk
    /// take what lies between two positions, in one of two ways, and `publish` tells of it: never of what lay there before
    /// the log started again.
    pub(crate) fn reach<E>(
        &self,
        completed: impl Fn() -> LogPosition,
        write: impl Fn(LogPosition, LogPosition) -> Result<Taken, E>,
        publish: impl Fn(LogPosition),
    ) -> Result<(), LogUnwritten> {
        let wanted = completed();
        if self.until() >= wanted {
            return Ok(());
        }
        // Where the log starts again nothing behind was acknowledged, and all before is digested.
        let is_reached = || self.until() >= wanted.min(completed());
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let reached = loop {
            let writes = self.writes.load(Ordering::Acquire);
            if is_reached() {
                break Ok(());
            }
            if self.has_failed.load(Ordering::Acquire) {
                break Err(LogUnwritten);
            }
            if self.writing.swap(true, Ordering::AcqRel) {
                wait(&self.writes, writes, Some(LOOK));
                continue;
            }
            if !is_reached() {
                self.write_all(&completed, &write, &publish);
            }
            self.writing.store(false, Ordering::Release);
            self.writes.fetch_add(1, Ordering::AcqRel);
            if self.waiting.load(Ordering::Acquire) > 1 {
                wake_all(&self.writes);
            }
        };
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        reached
    }

    /// Writes for all threads that are there; no other thread writes.
    fn write_all<E>(
        &self,
        completed: impl Fn() -> LogPosition,
        write: impl Fn(LogPosition, LogPosition) -> Result<Taken, E>,
        publish: impl Fn(LogPosition),
    ) {
        self.gather();
        let served = self.waiting.load(Ordering::Acquire);
        let restarts = *self.restarts();
        let (from, to) = (self.until(), completed());
        let began = Instant::now();
        match write(from, to) {
            Ok(taken) => {
                let now = self.restarts();
                if *now == restarts {
                    match taken {
                        Taken::ByItsPages => self.raise(to),
                        Taken::ByTheCommitFile => self.raise_until(to),
                    }
                    publish(self.until());
                }
            }
            Err(_) => self.has_failed.store(true, Ordering::Release),
        }
        self.took_ns.store(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        let last = self.served.swap(served, Ordering::Relaxed);
        self.served_before.store(last, Ordering::Relaxed);
    }

    /// Waits for those who were served together the last time.
    fn gather(&self) {
        let expected = self.served.load(Ordering::Relaxed).max(self.served_before.load(Ordering::Relaxed));
        if self.waiting.load(Ordering::Acquire) >= expected {
            return;
        }
        let time = Duration::from_nanos(self.took_ns.load(Ordering::Relaxed) / GATHERING_PART);
        let began = Instant::now();
        while self.waiting.load(Ordering::Acquire) < expected && began.elapsed() < time {
            rustix::thread::sched_yield();
        }
    }

    /// Everything below is on the disk, in the log's own pages or where it was digested to.
    pub(crate) fn raise(&self, position: LogPosition) {
        if self.settled() < position {
            self.settled.fetch_max(position.0, Ordering::AcqRel);
        }
        self.raise_until(position);
    }

    fn raise_until(&self, position: LogPosition) {
        if self.until() < position {
            self.until.fetch_max(position.0, Ordering::AcqRel);
        }
    }

    /// The log starts again at `position`, which is published; all before it is digested.
    pub(crate) fn restart(&self, position: LogPosition, publish: impl Fn(LogPosition)) {
        let mut restarts = self.restarts();
        *restarts += 1;
        self.settled.store(position.0, Ordering::Release);
        self.until.store(position.0, Ordering::Release);
        publish(position);
    }

    fn restarts(&self) -> MutexGuard<'_, u64> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far no commit file is needed.
    pub(crate) fn settled(&self) -> LogPosition {
        LogPosition(self.settled.load(Ordering::Acquire))
    }

    /// How far everything is on the disk.
    #[inline]
    pub(crate) fn until(&self) -> LogPosition {
        LogPosition(self.until.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// The writes that the disk was asked for.
    fn writes(durable: &Durable, completed: u64) -> Vec<(u64, u64)> {
        let writes = RefCell::new(Vec::new());
        let write = |from: LogPosition, to: LogPosition| {
            writes.borrow_mut().push((from.0, to.0));
            Ok::<Taken, ()>(Taken::ByItsPages)
        };
        assert_eq!(durable.reach(|| LogPosition(completed), write, |_| {}), Ok(()));
        writes.into_inner()
    }

    #[test]
    fn what_is_on_the_disk_or_digested_is_not_written_again() {
        let durable = Durable::new(LogPosition(64));
        assert_eq!(writes(&durable, 64), []);
        assert_eq!(writes(&durable, 192), [(64, 192)]);
        assert_eq!(writes(&durable, 192), []);
        durable.raise(LogPosition(320));
        assert_eq!(writes(&durable, 256), []);
        assert_eq!(writes(&durable, 384), [(320, 384)]);
    }

    /// The positions behind the new start are other entries' by then.
    #[test]
    fn what_was_written_before_the_log_started_again_does_not_count_for_what_comes_after() {
        let durable = Durable::new(LogPosition(0));
        let completed = AtomicU64::new(1024);
        let published = RefCell::new(Vec::new());
        let publish = |position: LogPosition| published.borrow_mut().push(position.0);
        let write = |_, _| {
            completed.store(512, Ordering::Relaxed);
            durable.restart(LogPosition(512), publish);
            Ok::<Taken, ()>(Taken::ByItsPages)
        };
        assert_eq!(durable.reach(|| LogPosition(completed.load(Ordering::Relaxed)), write, publish), Ok(()));
        assert_eq!(published.take(), [512]);
        assert_eq!(writes(&durable, 1024), [(512, 1024)]);
    }

    #[test]
    fn what_the_commit_file_took_is_durable_and_not_settled() {
        let durable = Durable::new(LogPosition(0));
        let taken = |taken, completed| {
            assert_eq!(
                durable.reach(|| LogPosition(completed), |_, _| Ok::<Taken, ()>(taken), |_| {}),
                Ok(())
            );
            (durable.until().0, durable.settled().0)
        };
        assert_eq!(taken(Taken::ByTheCommitFile, 128), (128, 0));
        assert_eq!(taken(Taken::ByItsPages, 192), (192, 192));
        assert_eq!(taken(Taken::ByTheCommitFile, 256), (256, 192));
        durable.raise(LogPosition(224));
        assert_eq!((durable.until().0, durable.settled().0), (256, 224));
        durable.restart(LogPosition(64), |_| {});
        assert_eq!((durable.until().0, durable.settled().0), (64, 64));
    }

    #[test]
    fn a_log_that_the_disk_did_not_take_once_is_not_taken_for_written() {
        let durable = Durable::new(LogPosition(0));
        assert_eq!(durable.reach(|| LogPosition(64), |_, _| Err::<Taken, ()>(()), |_| {}), Err(LogUnwritten));
        assert_eq!(
            durable.reach(|| LogPosition(128), |_, _| Ok::<Taken, ()>(Taken::ByItsPages), |_| {}),
            Err(LogUnwritten)
        );
        durable.raise(LogPosition(128));
        assert_eq!(writes(&durable, 128), [], "it was digested");
    }

    #[test]
    fn waiters_during_a_write_are_all_served_by_the_next_write() {
        const THREADS: u32 = 5;
        let durable = Durable::new(LogPosition(0));
        let (completed, count) = (AtomicU64::new(0), AtomicU32::new(0));
        let write = |_, _| {
            if count.fetch_add(1, Ordering::Relaxed) == 0 {
                while durable.waiting.load(Ordering::Relaxed) < THREADS {
                    std::thread::yield_now();
                }
            }
            Ok::<Taken, ()>(Taken::ByItsPages)
        };
        std::thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| {
                    completed.fetch_add(64, Ordering::Relaxed);
                    durable.reach(|| LogPosition(completed.load(Ordering::Relaxed)), write, |_| {}).unwrap();
                });
            }
        });
        assert!((1..=2).contains(&count.into_inner()));
        assert_eq!(durable.until(), LogPosition(64 * u64::from(THREADS)));
    }
}
