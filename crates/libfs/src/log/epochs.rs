//! The epochs of the store, as a session sees them ([`cuesta_format::epochs`]), and when its calls that ask for
//! durability return.
//!
//! | moment | the session |
//! |---|---|
//! | before an entry gets its place | if the present epoch is not the one that the log says, it logs the epoch first |
//! | behind an entry | if the epoch moved meanwhile, it sees to it that SharedFS writes the log |
//! | before an operation, in optimistic mode | if its oldest entry has waited for the disk too long, it waits for the disk |

use crate::session::session::Session;
use crate::sync::{Ordering, fence};
use cuesta_format::Epoch;
use cuesta_format::control::StorePage;
use cuesta_media::clock;
use cuesta_media::planted::{self, Bug};
use std::mem::offset_of;

/// In optimistic mode a session asks whether its daemon lives when its oldest entry has waited for this part of the bound: by then
/// SharedFS has begun to write it.
const TRUSTED_PARTS: (u64, u64) = (3, 4);

impl Session {
    /// Whether calls that ask for durability return at once.
    #[inline]
    pub(crate) fn is_optimistic(&self) -> bool {
        self.epochs.optimistic_ms_max.load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn store_word(&self, offset: usize) -> u64 {
        self.store_page.word(offset)
    }

    fn present_epoch(&self) -> u64 {
        self.store_word(offset_of!(StorePage, epoch))
    }

    /// Whether the store goes by epochs, or the log says one that is not on the disk: then SharedFS decides how much is durable.
    pub(crate) fn goes_by_epochs(&self) -> bool {
        self.present_epoch() != 0 || !self.is_written()
    }

    /// Whether the log must say the present epoch before its next entry. Only for medium `block`.
    #[inline]
    pub(crate) fn lacks_epoch(&self) -> bool {
        let present = self.present_epoch();
        present > self.epochs.logged.load(Ordering::Relaxed)
    }

    /// The epoch that the log must say, if it lacks one.
    pub(crate) fn epoch_to_log(&self) -> Option<Epoch> {
        let present = self.present_epoch();
        if planted::active(Bug::EpochUnlogged) {
            self.epochs.logged.fetch_max(present, Ordering::AcqRel);
        }
        let is_logged = self.epochs.logged.load(Ordering::Acquire) >= present;
        (!is_logged).then_some(Epoch(present))
    }

    /// The log says the epoch now.
    pub(crate) fn note_epoch_logged(&self, epoch: Epoch) {
        if self.is_written() {
            self.epochs.unwritten_since_ms.store(clock::milliseconds(), Ordering::Relaxed);
        }
        self.epochs.logged.fetch_max(epoch.0, Ordering::AcqRel);
        self.wake_writer();
    }

    /// An entry is complete. One that began in an earlier epoch may have been missed by the cut that ended it.
    #[inline]
    pub(crate) fn completed_in_epoch(&self) {
        let logged = self.epochs.logged.load(Ordering::Relaxed);
        if logged != 0 && self.present_epoch() != logged {
            self.completed_in_later_epoch();
        }
    }

    #[cold]
    fn completed_in_later_epoch(&self) {
        self.epochs.completed.fetch_max(self.present_epoch(), Ordering::AcqRel);
        self.wake_writer();
    }

    /// Either this finds that SharedFS sleeps, or SharedFS's last look before its sleep finds the entry.
    fn wake_writer(&self) {
        fence(Ordering::SeqCst);
        if self.store_word(offset_of!(StorePage, sleeps)) != 0 {
            self.raise_kick();
        }
    }

    /// Whether every epoch in which this session did something is on the disk.
    fn is_written(&self) -> bool {
        let logged = self.epochs.logged.load(Ordering::Relaxed);
        let newest = logged.max(self.epochs.completed.load(Ordering::Relaxed));
        self.store_word(offset_of!(StorePage, epoch_on_disk)) >= newest
    }

    /// The oldest epoch that the disk lacks.
    pub(crate) fn oldest_unwritten_epoch(&self) -> Epoch {
        Epoch(self.store_word(offset_of!(StorePage, epoch_on_disk)).saturating_add(1))
    }

    /// For how many milliseconds the oldest entry has waited for the disk; 0: none waits.
    fn unwritten_ms(&self) -> u64 {
        let since = self.epochs.unwritten_since_ms.load(Ordering::Relaxed);
        if since == 0 || self.is_written() {
            return 0;
        }
        let oldest = since.max(self.store_word(offset_of!(StorePage, last_cut_ms)));
        clock::milliseconds().saturating_sub(oldest)
    }

    /// Whether an operation must wait for the disk, so that the bound holds.
    #[inline]
    pub(crate) fn is_overdue(&self) -> bool {
        let bound = self.epochs.optimistic_ms_max.load(Ordering::Relaxed);
        bound != 0 && self.waits_longer_than(bound.into()) && !self.has_unwritable_log()
    }

    /// Whether the daemon should have begun to write the oldest entry by now.
    pub(crate) fn is_daemon_in_doubt(&self) -> bool {
        let bound = u64::from(self.epochs.optimistic_ms_max.load(Ordering::Relaxed));
        let (parts, of) = TRUSTED_PARTS;
        self.waits_longer_than(bound * parts / of)
    }

    fn waits_longer_than(&self, milliseconds: u64) -> bool {
        self.unwritten_ms() > milliseconds
    }
}
