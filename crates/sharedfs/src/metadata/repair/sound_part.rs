//! A store as far as its journal is sound: the caller decides whether to go on with that.

use crate::metadata::journal::JournalLoss;
use crate::metadata::tree::Snapshot;
use crate::metadata::{CACHE_BYTES, Files, MetadataError, MetadataStore};

/// A store as far as its journal is sound. Nothing was changed yet.
pub struct SoundPart {
    store: MetadataStore,
    loss: Option<JournalLoss>,
}

impl SoundPart {
    pub(crate) fn new(store: MetadataStore, loss: Option<JournalLoss>) -> SoundPart {
        SoundPart { store, loss }
    }

    /// The journal's damage, if there is some.
    pub fn loss(&self) -> Option<JournalLoss> {
        self.loss
    }

    /// The committed state, as far as it is sound.
    pub fn read(&self) -> Result<Snapshot, MetadataError> {
        self.store.read()
    }

    /// Pages that are damaged in every copy.
    pub fn lost_pages(&self) -> Result<u64, MetadataError> {
        self.store.scrub_copies()
    }

    /// Drops the rest, for good.
    pub fn drop_rest(self) -> Result<MetadataStore, MetadataError> {
        if self.loss.is_some() {
            self.store.begin()?.write_out()?;
        }
        Ok(self.store)
    }
}

impl MetadataStore {
    /// As [`MetadataStore::open`], but a journal that is damaged counts up to its first flaw.
    pub fn open_sound_part(files: Files) -> Result<SoundPart, MetadataError> {
        let (store, loss) = MetadataStore::open_with_journal(files, CACHE_BYTES)?;
        store.check_whole()?;
        Ok(SoundPart::new(store, loss))
    }
}
