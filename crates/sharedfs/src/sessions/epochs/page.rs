//! The words of epochs in the page that all sessions of a store share ([`StorePage`]).

use crate::Error;
use cuesta_format::Epoch;
use cuesta_format::Medium;
use cuesta_format::control::{CONTROL_BYTES, StorePage};
use cuesta_media::{Mapping, Protection};
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::atomic::{Ordering, fence};

/// The writing end. Sessions believe it; SharedFS reads nothing back.
#[derive(Debug)]
pub(super) struct EpochWords(Mapping);

impl EpochWords {
    /// `page`: the file that sessions have mapped.
    pub(super) fn map(page: impl AsFd) -> Result<EpochWords, Error> {
        let (bytes, medium) = (CONTROL_BYTES as u64, Medium::Memory);
        let mapping = Mapping::of_file(page, 0, bytes, Protection::ReadWrite, medium, true);
        Ok(EpochWords(mapping.map_err(Error::from)?))
    }

    /// Stores a word whole, ordered before every later read of a session's page.
    fn store(&self, offset: usize, word: u64) {
        // A file that was cut is made whole where daemons are counted.
        let _ = self.0.write(offset as u64, &word.to_ne_bytes());
        fence(Ordering::SeqCst);
    }

    pub(super) fn show_present(&self, epoch: Epoch) {
        self.store(offset_of!(StorePage, epoch), epoch.0);
    }

    /// Everything that had returned at `began_ms` is on the disk.
    pub(super) fn show_on_disk(&self, epoch: Epoch, began_ms: u64) {
        self.store(offset_of!(StorePage, last_cut_ms), began_ms);
        self.store(offset_of!(StorePage, epoch_on_disk), epoch.0);
    }

    pub(super) fn show_sleeping(&self, sleeps: bool) {
        self.store(offset_of!(StorePage, sleeps), sleeps.into());
    }
}
