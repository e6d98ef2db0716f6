//! A store as far as its journal is sound, for who decides whether to go on with that.

use super::journal::JournalFlaw;
use super::{MetadataError, MetadataStore, Snapshot};

/// A journal that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalLoss {
    /// How. Whatever it held behind that is lost.
    pub flaw: JournalFlaw,
    /// Commits it holds before that.
    pub commits_kept: u64,
}

/// A store as far as its journal is sound. Nothing was changed yet.
pub struct SoundPart {
    store: MetadataStore,
    loss: Option<JournalLoss>,
}

impl SoundPart {
    pub(super) fn new(store: MetadataStore, loss: Option<JournalLoss>) -> SoundPart {
        SoundPart { store, loss }
    }

    /// What is wrong with the journal, if anything is.
    pub fn loss(&self) -> Option<JournalLoss> {
        self.loss
    }

    /// What is there.
    pub fn read(&self) -> Result<Snapshot, MetadataError> {
        self.store.read()
    }

    /// Pages that are damaged in every copy.
    pub fn lost_pages(&self) -> Result<u64, MetadataError> {
        self.store.scrub_copies()
    }

    /// Drops what is not sound, for good.
    pub fn drop_rest(self) -> Result<MetadataStore, MetadataError> {
        if self.loss.is_some() {
            self.store.begin()?.write_out()?;
        }
        Ok(self.store)
    }
}
