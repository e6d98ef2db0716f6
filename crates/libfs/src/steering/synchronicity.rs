//! The synchronicity predictor (Ziggurat §4): a file is synchronous if fewer than [`SYNCHRONOUS_BLOCKS`] blocks were
//! written between its last two fsyncs. Of a file that was never synced the session's *habit* decides: what became of
//! its other new files, and before there are any, those of the session that ended last.
//!
//! A prediction *synchronous* is right if an fsync comes within so many blocks. A prediction *asynchronous* is
//! right if none does.

use super::hits::Hits;
use crate::sync::{AtomicU32, Ordering};

/// So many blocks between two fsyncs are too many for a program that waits for each change: 4 MiB.
pub(crate) const SYNCHRONOUS_BLOCKS: u64 = 1024;
/// The habit counts up to this, and says *synchronous* from half of it on.
const HABIT_MAX: u32 = 8;

/// Whether a session syncs its new files soon. It begins with the habit of the session that ended last, because many
/// programs make one file and end. Threads that count at once may lose a count.
#[derive(Debug, Default)]
pub(crate) struct Habit(AtomicU32);

impl Habit {
    fn is_synchronous(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= HABIT_MAX / 2
    }

    /// The habit that another session told. 0: none did.
    pub(crate) fn told(told: u64) -> Habit {
        Habit(AtomicU32::new(u32::try_from(told.saturating_sub(1)).unwrap_or(HABIT_MAX).min(HABIT_MAX)))
    }

    /// The habit for other sessions. Never 0.
    pub(crate) fn tell(&self) -> u64 {
        u64::from(self.0.load(Ordering::Relaxed)) + 1
    }

    /// What became of a new file.
    fn note(&self, was_synced: bool) {
        let count = self.0.load(Ordering::Relaxed);
        let count = if was_synced { (count + 1).min(HABIT_MAX) } else { count.saturating_sub(1) };
        self.0.store(count, Ordering::Relaxed);
    }
}

/// The fsyncs of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Synchronicity {
    /// Blocks written since the last fsync.
    since_sync: u64,
    /// Whether the last two fsyncs were close together.
    was_close: bool,
    /// There was an fsync.
    was_synced: bool,
    /// The habit counts the file.
    is_counted: bool,
    /// Writes since the last fsync that were predicted synchronous.
    predicted_synchronous: u64,
    /// Those that were predicted asynchronous.
    predicted_asynchronous: u64,
}

impl Synchronicity {
    /// Whether an fsync is expected soon.
    pub(crate) fn is_synchronous(&self, habit: &Habit) -> bool {
        let expected = if self.was_synced { self.was_close } else { habit.is_synchronous() };
        expected && self.since_sync < SYNCHRONOUS_BLOCKS
    }

    /// A write of so many blocks.
    #[inline]
    pub(crate) fn note_write(&mut self, blocks: u64, habit: &Habit, hits: &mut Hits) {
        if self.is_synchronous(habit) {
            self.predicted_synchronous += 1;
        } else {
            self.predicted_asynchronous += 1;
        }
        self.since_sync += blocks;
        if self.since_sync >= SYNCHRONOUS_BLOCKS {
            self.settle(false, habit, hits);
        }
    }

    /// An fsync.
    pub(crate) fn note_sync(&mut self, habit: &Habit, hits: &mut Hits) {
        // An fsync that has nothing to wait for says nothing.
        if self.since_sync == 0 {
            return;
        }
        let is_close = self.since_sync < SYNCHRONOUS_BLOCKS;
        self.settle(is_close, habit, hits);
        (self.was_close, self.was_synced) = (is_close, true);
        self.since_sync = 0;
    }

    /// No fsync will come any more: the file was closed.
    pub(crate) fn note_end(&mut self, habit: &Habit, hits: &mut Hits) {
        if self.since_sync > 0 {
            self.settle(false, habit, hits);
        }
    }

    fn settle(&mut self, was_synced: bool, habit: &Habit, hits: &mut Hits) {
        if !std::mem::replace(&mut self.is_counted, true) {
            habit.note(was_synced);
        }
        hits.note(was_synced, std::mem::take(&mut self.predicted_synchronous));
        hits.note(!was_synced, std::mem::take(&mut self.predicted_asynchronous));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_synchronous_while_few_blocks_come_between_its_fsyncs() {
        let (mut file, mut hits, habit) = (Synchronicity::default(), Hits::default(), Habit::default());
        file.note_write(8, &habit, &mut hits);
        assert!(!file.is_synchronous(&habit), "it was never synced");
        file.note_sync(&habit, &mut hits);
        assert!(file.is_synchronous(&habit));
        file.note_write(SYNCHRONOUS_BLOCKS, &habit, &mut hits);
        assert!(!file.is_synchronous(&habit), "so much was written");
        file.note_sync(&habit, &mut hits);
        assert!(!file.is_synchronous(&habit));
        file.note_write(1, &habit, &mut hits);
        file.note_sync(&habit, &mut hits);
        assert!(file.is_synchronous(&habit));
        file.note_sync(&habit, &mut hits);
        assert!(file.is_synchronous(&habit), "an fsync of nothing says nothing");
    }

    #[test]
    fn a_prediction_counts_when_it_is_known_what_became_of_it() {
        let (mut file, mut hits, habit) = (Synchronicity::default(), Hits::default(), Habit::default());
        file.note_write(1, &habit, &mut hits);
        assert_eq!(hits, Hits::default());
        file.note_sync(&habit, &mut hits);
        assert_eq!(
            std::mem::take(&mut hits),
            Hits { right: 0, wrong: 1 },
            "the first fsync comes as a surprise"
        );
        for _ in 0..10 {
            file.note_write(1, &habit, &mut hits);
            file.note_sync(&habit, &mut hits);
        }
        assert_eq!(std::mem::take(&mut hits), Hits { right: 10, wrong: 0 });
        file.note_write(1, &habit, &mut hits);
        file.note_end(&habit, &mut hits);
        assert_eq!(std::mem::take(&mut hits), Hits { right: 0, wrong: 1 });
        let mut other = Synchronicity::default();
        (0..3).for_each(|_| other.note_write(SYNCHRONOUS_BLOCKS, &habit, &mut hits));
        assert_eq!(hits, Hits { right: 3, wrong: 0 });
    }

    #[test]
    fn new_files_are_synced_or_not_as_those_before_them() {
        let (mut hits, habit) = (Hits::default(), Habit::default());
        let message = |syncs: bool, hits: &mut Hits| {
            let mut file = Synchronicity::default();
            (0..3).for_each(|_| file.note_write(1, &habit, hits));
            if syncs {
                file.note_sync(&habit, hits);
            }
            file.note_end(&habit, hits);
        };
        (0..100).for_each(|_| message(true, &mut hits));
        assert_eq!(std::mem::take(&mut hits), Hits { right: 288, wrong: 12 }, "after four files it is known");
        message(false, &mut hits);
        message(true, &mut hits);
        assert_eq!(std::mem::take(&mut hits), Hits { right: 3, wrong: 3 }, "one file is no habit");
        (0..20).for_each(|_| message(false, &mut hits));
        assert_eq!(hits, Hits { right: 45, wrong: 15 });
    }

    #[test]
    fn a_session_goes_on_with_the_habit_that_another_told() {
        let mut hits = Hits::default();
        let mut told = 0;
        for _ in 0..100 {
            let (habit, mut file) = (Habit::told(told), Synchronicity::default());
            file.note_write(1, &habit, &mut hits);
            file.note_sync(&habit, &mut hits);
            told = habit.tell();
        }
        assert_eq!(hits, Hits { right: 96, wrong: 4 }, "sessions that write one file each");
        assert!(
            Habit::told(u64::MAX).is_synchronous() && Habit::told(u64::MAX).tell() == told,
            "no more than the most"
        );
        assert!(!Habit::told(0).is_synchronous());
    }
}
