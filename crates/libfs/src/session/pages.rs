//! Reading the notice page and writing the client page, apart from the positions of the log.

use crate::session::session::Session;
use crate::steering::hits::Hits;
use crate::steering::predictions::Counts;
use crate::steering::synchronicity::Habit;
use crate::sync::{AtomicU64, Ordering};
use cuesta_format::control::UNSERVED_SLOTS;
use cuesta_format::kept_names::set_of;
use cuesta_format::seen_reads::{SEEN_READS, SeenRead, is_told};
use cuesta_format::{InodeNumber, LogPosition, kept_names};
use cuesta_media::clock;
use std::time::Duration;

/// After this many requests for lock files the session kicks SharedFS.
const LOCK_FILES_PER_KICK: u64 = 256;

/// How far the session is with what operations wait for. Two values differ if a wait brought progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitProgress {
    digested: LogPosition,
    log_limit: LogPosition,
    credit_limit: u64,
}

impl Session {
    /// Counts an operation and its bytes, for `cuesta status`.
    #[inline]
    pub(crate) fn count(&self, read: u64, written: u64) {
        let page = self.client_page.page();
        // Lossy on purpose: a counter for people is not worth a locked instruction.
        let add = |counter: &AtomicU64, amount: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        };
        add(&page.operations, 1);
        if read > 0 {
            add(&page.bytes_read, read);
        }
        if written > 0 {
            add(&page.bytes_written, written);
        }
    }

    /// Whether SharedFS is told of the read that comes next.
    #[inline]
    pub(crate) fn tells_read(&self) -> bool {
        is_told(self.client_page.page().operations.load(Ordering::Relaxed))
    }

    /// Tells SharedFS of a read.
    #[cold]
    pub(crate) fn tell_read(&self, read: SeenRead) {
        let head = &self.client_page.page().seen_reads;
        let number = head.load(Ordering::Relaxed);
        let first = number as usize % SEEN_READS * 2;
        for (word, said) in read.words().into_iter().enumerate() {
            if let Some(word) = self.client_page.seen_read(first + word) {
                word.store(said, Ordering::Relaxed);
            }
        }
        head.store(number.wrapping_add(1), Ordering::Release);
    }

    /// The habit of the sessions before this one.
    pub(crate) fn habit_before(&self) -> Habit {
        Habit::told(self.notice.page().sync_habit.load(Ordering::Relaxed))
    }

    /// Adds to the counts of predictions that were right and wrong, and tells the session's habit.
    pub(crate) fn count_predictions(&self, counts: &Counts, habit: &Habit) {
        let Counts { synchronicity, sizes } = counts;
        if *synchronicity != Hits::default() {
            self.client_page.page().sync_habit.store(habit.tell(), Ordering::Relaxed);
        }
        let added = [synchronicity.right, synchronicity.wrong, sizes.right, sizes.wrong];
        for (counter, added) in self.client_page.page().predictions.iter().zip(added) {
            if added > 0 {
                counter.fetch_add(added, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn count_unserved(&self, system_call: usize) {
        let slot = system_call.min(UNSERVED_SLOTS - 1);
        if let Some(counter) = self.client_page.page().unserved.get(slot) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A number that changes with every limit that is set or lifted. 0: the store has no limits.
    #[inline]
    pub(crate) fn limits_shown(&self) -> u64 {
        self.notice.page().quotas.load(Ordering::Acquire)
    }

    /// Blocks that the session may debit in all.
    #[inline]
    pub(crate) fn credit_limit(&self) -> u64 {
        self.notice.page().credit_limit.load(Ordering::Acquire)
    }

    /// Whether the log holds as many undigested entries as recovery may have to digest.
    #[inline]
    pub(crate) fn holds_too_many_entries(&self) -> bool {
        let page = self.notice.page();
        let undigested =
            self.appender.entries().saturating_sub(page.digested_entries.load(Ordering::Relaxed));
        undigested >= page.entries_max.load(Ordering::Relaxed)
    }

    /// Whether another session is about to take the directory, or one in the same set.
    pub(crate) fn is_wanted(&self, directory: InodeNumber) -> bool {
        self.notice.page().wanted[set_of(directory)].load(Ordering::SeqCst) != 0
    }

    /// Marks a directory, so that a mount's kernel may keep a name of it. `false`: there was no room for the
    /// mark.
    pub(crate) fn mark_names(&self, directory: InodeNumber) -> bool {
        kept_names::mark(&self.client_page.page().kept_names[set_of(directory)], directory, clock::ticks())
    }

    /// How long a mount's kernel may still keep names of the directory.
    pub(crate) fn names_left(&self, directory: InodeNumber) -> Option<Duration> {
        let set = &self.client_page.page().kept_names[set_of(directory)];
        let marks = set.each_ref().map(|mark| mark.load(Ordering::SeqCst));
        kept_names::left(marks, directory, clock::ticks())
    }

    /// Whether SharedFS polls the log without a kick: another session waits for an inode of this one, or soon
    /// will.
    pub(crate) fn is_log_polled(&self) -> bool {
        self.notice.page().attended.load(Ordering::SeqCst) != 0
    }

    /// Counts a request for a lock file.
    pub(crate) fn note_lock_file(&self) {
        let before = self.client_page.page().lock_files.fetch_add(1, Ordering::Relaxed);
        if before % LOCK_FILES_PER_KICK == LOCK_FILES_PER_KICK - 1 {
            self.raise_kick();
        }
    }

    /// The present progress.
    pub(crate) fn wait_progress(&self) -> WaitProgress {
        WaitProgress {
            digested: self.digested(),
            log_limit: self.appender.limit(),
            credit_limit: self.credit_limit(),
        }
    }
}
