//! How far the log is on the disk, where that takes a wait: on medium `block` (group commit).
//!
//! Entries complete in memory, as on every medium, and the kernel may write their pages in any order: an entry says itself
//! whether it is whole, so that whatever subset a power cut leaves, the scan finds a prefix. Who must know that its entries
//! are in that prefix has them written. One does so at a time, and for all that completed before: who waited for its turn
//! mostly finds that done, and one write serves however many threads came meanwhile.

use crate::sync::{AtomicU64, Ordering};
use cuesta_format::LogPosition;
use std::sync::{Mutex, PoisonError};

/// The account of a log.
#[derive(Debug)]
pub(crate) struct Durable {
    until: AtomicU64,
    writing: Mutex<()>,
}

impl Durable {
    pub(crate) fn new(start: LogPosition) -> Durable {
        Durable { until: AtomicU64::new(start.0), writing: Mutex::new(()) }
    }

    /// Returns once everything below `wanted` is on the disk. `completed` says what there is, and `write` has the disk
    /// take what lies between two positions.
    pub(crate) fn reach<E>(
        &self,
        wanted: LogPosition,
        completed: impl FnOnce() -> LogPosition,
        write: impl FnOnce(LogPosition, LogPosition) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.until() >= wanted {
            return Ok(());
        }
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let from = self.until();
        if from >= wanted {
            return Ok(());
        }
        let to = completed();
        write(from, to)?;
        self.until.fetch_max(to.0, Ordering::AcqRel);
        Ok(())
    }

    /// Everything below is on the disk, in the log or where it was digested to.
    pub(crate) fn raise(&self, position: LogPosition) {
        if self.until() < position {
            self.until.fetch_max(position.0, Ordering::AcqRel);
        }
    }

    /// Starts again at `position`; nobody waits meanwhile.
    pub(crate) fn restart(&self, position: LogPosition) {
        self.until.store(position.0, Ordering::Release);
    }

    fn until(&self) -> LogPosition {
        LogPosition(self.until.load(Ordering::Acquire))
    }
}
