//! Totals since the daemon started, for `cuesta status`; and the habit that new sessions begin with.

use cuesta_format::control::UNSERVED_SLOTS;
use cuesta_format::wire::PredictorStatus;
use std::sync::atomic::{AtomicU64, Ordering};

/// Totals, each of which only grows, and a habit.
#[derive(Debug)]
pub struct Counters {
    /// Entries digested.
    pub digested_entries: AtomicU64,
    /// Entries among them that left no trace because a later one of the batch overtook them.
    pub coalesced_entries: AtomicU64,
    /// Bytes copied into arenas.
    pub digested_bytes: AtomicU64,
    /// Sessions fenced.
    pub fences: AtomicU64,
    /// Blocks that moved to a lower tier by themselves.
    pub blocks_demoted: AtomicU64,
    /// Blocks that were copied to the fast tier by themselves.
    pub blocks_promoted: AtomicU64,
    /// How often predictors of sessions that have ended were right and wrong.
    predictions: [AtomicU64; 4],
    /// Whether the session that ended last synced its new files. A program of a moment has no time to learn that.
    sync_habit: AtomicU64,
    /// Calls not served, of sessions that have ended, by system call number.
    unserved: [AtomicU64; UNSERVED_SLOTS],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            digested_entries: AtomicU64::new(0),
            coalesced_entries: AtomicU64::new(0),
            digested_bytes: AtomicU64::new(0),
            fences: AtomicU64::new(0),
            blocks_demoted: AtomicU64::new(0),
            blocks_promoted: AtomicU64::new(0),
            predictions: [const { AtomicU64::new(0) }; 4],
            sync_habit: AtomicU64::new(0),
            unserved: [const { AtomicU64::new(0) }; UNSERVED_SLOTS],
        }
    }
}

impl Counters {
    /// Adds the predictions of a session that ends.
    pub fn keep_predictions(&self, counts: [u64; 4]) {
        for (total, count) in self.predictions.iter().zip(counts) {
            total.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Keeps the habit of a session that ends. 0: it has none.
    pub fn keep_sync_habit(&self, habit: u64) {
        if habit > 0 {
            self.sync_habit.store(habit, Ordering::Relaxed);
        }
    }

    /// The habit that a new session begins with.
    #[must_use]
    pub fn sync_habit(&self) -> u64 {
        self.sync_habit.load(Ordering::Relaxed)
    }

    /// The predictions of ended sessions and of `live` ones.
    #[must_use]
    pub fn predictions(&self, live: impl Iterator<Item = [u64; 4]>) -> PredictorStatus {
        let mut totals = self.predictions.each_ref().map(|total| total.load(Ordering::Relaxed));
        for counts in live {
            for (total, count) in totals.iter_mut().zip(counts) {
                *total = total.saturating_add(count);
            }
        }
        let [synchronous_right, synchronous_wrong, large_right, large_wrong] = totals;
        PredictorStatus { synchronous_right, synchronous_wrong, large_right, large_wrong }
    }

    /// Adds the counts of a session that ends.
    pub fn keep_unserved(&self, counts: &[u32; UNSERVED_SLOTS]) {
        for (total, &count) in self.unserved.iter().zip(counts) {
            if count > 0 {
                total.fetch_add(u64::from(count), Ordering::Relaxed);
            }
        }
    }

    /// The counts of ended sessions plus those of `live` ones, where there are any.
    #[must_use]
    pub fn unserved(&self, live: impl Iterator<Item = [u32; UNSERVED_SLOTS]>) -> Vec<(u32, u64)> {
        let mut totals = self.unserved.each_ref().map(|total| total.load(Ordering::Relaxed));
        for counts in live {
            for (total, count) in totals.iter_mut().zip(counts) {
                *total += u64::from(count);
            }
        }
        totals
            .into_iter()
            .enumerate()
            .filter(|&(_, count)| count > 0)
            .map(|(call, count)| (call as u32, count))
            .collect()
    }
}
