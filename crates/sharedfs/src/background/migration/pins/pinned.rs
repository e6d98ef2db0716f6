//! The inodes that have pins, and what follows for files.

use cuesta_format::{InodeNumber, TierNumber};
use cuesta_placement::Choice;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where content of files is pinned to, as of one look.
#[derive(Debug, Default)]
pub(super) struct PinnedFiles {
    pub(super) tiers: HashMap<InodeNumber, TierNumber>,
    /// There are more than can be kept.
    pub(super) is_cut: bool,
}

/// The thread's own state.
#[derive(Debug, Default)]
pub(crate) struct Bringer {
    /// The inodes that have pins.
    pub(super) pinned: BTreeSet<InodeNumber>,
    pub(super) has_looked: bool,
    pub(super) soonest: Option<Instant>,
    pub(super) latest: Option<Instant>,
}

/// Notes of digests to the thread.
#[derive(Debug, Default)]
struct Notes {
    /// Inodes that got a pin since the thread took them.
    inodes: BTreeSet<InodeNumber>,
    /// Pins changed.
    is_changed: bool,
    /// A digest ended.
    is_digested: bool,
    /// The thread is to end.
    is_over: bool,
}

/// The pins of a store.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    notes: Mutex<Notes>,
    told: Condvar,
    /// Whether there may be any.
    has_some: AtomicBool,
    files: Mutex<Arc<PinnedFiles>>,
    /// Blocks that are pinned to a tier and lie elsewhere, because it has no room for them.
    outside: Mutex<BTreeMap<TierNumber, u64>>,
}

impl Pins {
    /// An inode got a pin, or lost its own, by a transaction that is committed.
    pub(crate) fn note_change(&self, inode: InodeNumber) {
        let mut notes = self.notes.lock();
        notes.inodes.insert(inode);
        notes.is_changed = true;
        self.has_some.store(true, Ordering::Release);
        self.told.notify_all();
    }

    /// A digest ended: files may be others, or lie elsewhere.
    pub(crate) fn note_digest(&self) {
        if self.has_some.load(Ordering::Acquire) {
            let mut notes = self.notes.lock();
            if !std::mem::replace(&mut notes.is_digested, true) {
                self.told.notify_all();
            }
        }
    }

    /// The inodes that got pins since the last time.
    pub(super) fn take_noted(&self) -> BTreeSet<InodeNumber> {
        let mut notes = self.notes.lock();
        (notes.is_changed, notes.is_digested) = (false, false);
        std::mem::take(&mut notes.inodes)
    }

    /// Whether no inode has a pin: digests need not tell.
    pub(super) fn keep(&self, files: PinnedFiles, has_some: bool) -> Arc<PinnedFiles> {
        let files = Arc::new(files);
        *self.files.lock() = Arc::clone(&files);
        let notes = self.notes.lock();
        self.has_some.store(has_some || !notes.inodes.is_empty(), Ordering::Release);
        files
    }

    /// Whether no content of a file moves away by itself.
    pub(crate) fn keeps(&self, inode: InodeNumber) -> bool {
        self.has_some.load(Ordering::Acquire)
            && (self.files.lock().tiers.contains_key(&inode) || self.notes.lock().inodes.contains(&inode))
    }

    /// The next piece that a policy chooses of a file without a pin.
    pub(crate) fn unpinned(&self, mut next: impl FnMut() -> Option<Choice>) -> Option<Choice> {
        loop {
            let choice = next()?;
            if !self.keeps(choice.piece.inode) {
                return Some(choice);
            }
        }
    }

    pub(super) fn set_outside(&self, outside: BTreeMap<TierNumber, u64>) {
        *self.outside.lock() = outside;
    }

    /// Blocks that are pinned to a tier and lie elsewhere, because it has no room for them.
    pub(crate) fn outside(&self, tier: TierNumber) -> u64 {
        self.outside.lock().get(&tier).copied().unwrap_or(0)
    }

    /// Whether the thread is to stop where it is: pins changed, or the daemon stops.
    pub(super) fn is_interrupted(&self) -> bool {
        let notes = self.notes.lock();
        notes.is_changed || notes.is_over
    }

    /// Waits until pins change, until `soonest` if a digest ended, or until `latest`. Says whether the thread goes on.
    pub(super) fn wait(&self, soonest: Instant, latest: Option<Instant>) -> bool {
        let mut notes = self.notes.lock();
        while !notes.is_over && !notes.is_changed {
            let until = if notes.is_digested { Some(soonest) } else { latest };
            match until {
                Some(until) if until <= Instant::now() => break,
                Some(until) => drop(self.told.wait_until(&mut notes, until)),
                None => self.told.wait(&mut notes),
            }
        }
        !notes.is_over
    }

    /// Pauses. Says whether the thread goes on.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let mut notes = self.notes.lock();
        let until = Instant::now() + time;
        while !notes.is_over && !notes.is_changed && !self.told.wait_until(&mut notes, until).timed_out() {}
        !notes.is_over && !notes.is_changed
    }

    /// The thread ends behind the part that it is at.
    pub(crate) fn end(&self) {
        self.notes.lock().is_over = true;
        self.told.notify_all();
    }
}
