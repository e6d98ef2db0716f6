//! Entries that are whole before their turn, where the thread finds them that has the turn in front of theirs.
//!
//! A few cells, each of which belongs to some of all places. Where two of those wait at once, the later one is not
//! handed in: its owner takes the turn itself. Only the thread with the turn takes an entry out.

use crate::sync::{AtomicU64, Ordering};
use cuesta_format::LogPosition;

#[cfg(not(feature = "model"))]
const CELLS: usize = 16;
/// What places and lengths are multiples of.
#[cfg(not(feature = "model"))]
const UNIT: u64 = cuesta_format::entry::ENTRY_ALIGNMENT as u64;
#[cfg(feature = "model")]
const CELLS: usize = 1;
#[cfg(feature = "model")]
const UNIT: u64 = 1;

/// 2^64 over the golden ratio: entries of one size, whichever, come to lie in different cells.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The cells. One that is in use holds the entry's length, in units, above the lower half of its place, which is
/// unlike that of any other entry in the log at the time.
#[derive(Debug)]
pub(crate) struct HandedIn {
    cells: [AtomicU64; CELLS],
}

impl Default for HandedIn {
    fn default() -> HandedIn {
        HandedIn { cells: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl HandedIn {
    fn cell(&self, start: LogPosition) -> &AtomicU64 {
        let number = (start.0 / UNIT).wrapping_mul(SPREAD) >> 32;
        &self.cells[number as usize % self.cells.len()]
    }

    /// The entry between the two is whole. Says whether it will be found: not where its cell is in use.
    pub(crate) fn put(&self, start: LogPosition, end: LogPosition) -> bool {
        let entry = ((end.0 - start.0) / UNIT) << 32 | u64::from((start.0 / UNIT) as u32);
        self.cell(start).compare_exchange(0, entry, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Takes out the entry that starts there, if it was put: where it ends. It is its turn, and the caller's.
    #[inline]
    pub(crate) fn take(&self, start: LogPosition) -> Option<LogPosition> {
        let cell = self.cell(start);
        let entry = cell.load(Ordering::Acquire);
        let (units, place) = (entry >> 32, entry as u32);
        if units == 0 || place != (start.0 / UNIT) as u32 {
            return None;
        }
        cell.store(0, Ordering::Relaxed);
        Some(start.plus(units * UNIT))
    }
}
