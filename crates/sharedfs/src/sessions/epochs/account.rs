//! The store's epochs, as SharedFS knows them.
//!
//! | epoch | entries that name it |
//! |---|---|
//! | up to `on_disk` | survive: it is recorded |
//! | up to `present` | may be in logs |
//! | 16 behind the record | there are none: it is the first one after a restart |

use super::page::EpochWords;
use super::record::{EpochFile, Recorded};
use crate::Error;
use cuesta_format::{Epoch, StoreId};
use cuesta_media::clock;
use parking_lot::Mutex;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A daemon shows sessions at most three epochs that are not recorded: the one that it ends, the next, and one for its sleep.
const EPOCHS_SKIPPED: u64 = 16;

/// The account of a store's epochs.
#[derive(Debug)]
pub(crate) struct Epochs {
    pub(super) words: EpochWords,
    /// The present epoch, or 0.
    pub(super) present: AtomicU64,
    pub(super) on_disk: AtomicU64,
    /// Cuts begun.
    pub(super) cuts: AtomicU64,
    /// When the last cut began that ended well, in milliseconds of the kernel's ticks.
    pub(super) last_cut_ms: AtomicU64,
    /// When a session last woke SharedFS to write logs.
    pub(super) woken_ms: AtomicU64,
    pub(super) has_failed: AtomicBool,
    /// Held by the thread that cuts.
    pub(super) cutting: Mutex<Cutting>,
}

/// State that belongs to the thread that cuts.
#[derive(Debug)]
pub(super) struct Cutting {
    pub(super) file: EpochFile,
    /// No session was shown a later epoch.
    pub(super) last: Epoch,
    /// Sessions were shown an epoch by this daemon.
    pub(super) is_shown: bool,
}

impl Epochs {
    /// `page`: the page that sessions have mapped.
    pub(crate) fn open(tier: &Path, store: StoreId, page: impl AsFd) -> Result<Epochs, Error> {
        let file = EpochFile::of(tier, store);
        let on_disk = match file.read()? {
            Recorded::Epoch(epoch) => epoch,
            Recorded::Never | Recorded::Damaged => Epoch(0),
        };
        Ok(Epochs {
            words: EpochWords::map(page)?,
            present: AtomicU64::new(0),
            on_disk: AtomicU64::new(on_disk.0),
            cuts: AtomicU64::new(0),
            last_cut_ms: AtomicU64::new(0),
            woken_ms: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            cutting: Mutex::new(Cutting { file, last: Epoch(on_disk.0 + EPOCHS_SKIPPED), is_shown: false }),
        })
    }

    /// The record that recovery goes by.
    pub(crate) fn recorded(&self) -> Result<Recorded, Error> {
        self.cutting.lock().file.read()
    }

    /// Recovery has found all logs as their sessions left them, and the disk has them: all epochs that any entry names are
    /// on the disk.
    pub(crate) fn record_all(&self) -> Result<(), Error> {
        let mut cutting = self.cutting.lock();
        let last = cutting.last;
        cutting.file.write(last)?;
        self.on_disk.store(last.0, Ordering::SeqCst);
        cutting.last = Epoch(last.0 + EPOCHS_SKIPPED);
        Ok(())
    }

    /// The daemon begins to answer: sessions see that the store goes by no epoch yet.
    pub(crate) fn begin(&self) {
        self.words.show_sleeping(false);
        self.words.show_present(Epoch(0));
        self.words.show_on_disk(self.on_disk(), 0);
    }

    /// The present epoch; 0: the store goes by none.
    pub(crate) fn present(&self) -> Epoch {
        Epoch(self.present.load(Ordering::SeqCst))
    }

    /// The newest epoch on the disk.
    pub(crate) fn on_disk(&self) -> Epoch {
        Epoch(self.on_disk.load(Ordering::SeqCst))
    }

    /// Whether the disk did not take a log.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    /// Sessions may name epochs from now on. No entry names one that is behind the record and not later than the last.
    pub(super) fn first(&self, cutting: &mut Cutting) -> Result<(), Error> {
        let last = cutting.last;
        cutting.file.write(last)?;
        self.on_disk.store(last.0, Ordering::SeqCst);
        self.words.show_on_disk(last, clock::milliseconds());
        cutting.is_shown = true;
        self.show_next(cutting);
        Ok(())
    }

    /// Shows sessions the next epoch. `cutting` is locked.
    pub(super) fn show_next(&self, cutting: &mut Cutting) {
        cutting.last = Epoch(cutting.last.0 + 1);
        self.present.store(cutting.last.0, Ordering::SeqCst);
        self.words.show_present(cutting.last);
    }

    /// From now on it goes by none. `cutting` is locked.
    pub(super) fn show_none(&self) {
        self.present.store(0, Ordering::SeqCst);
        self.words.show_present(Epoch(0));
    }
}
