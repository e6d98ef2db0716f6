//! Inodes the kernel knows: it says how often it learned of each, and later how many of these it has forgotten.
//!
//! One that loses its last name while the kernel knows it stays until the kernel has forgotten it: somebody may stand in
//! it, or have it open to name it.

use cuesta_format::InodeNumber;
use cuesta_libfs::{OpenFile, Tenure};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;

/// Parts of the table, each with a lock of its own.
const PARTS: usize = 16;

/// What there is to know of one.
#[derive(Default)]
struct Entry {
    lookups: u64,
    /// Some of its content may be in the kernel's cache, as it was under this; `None`: whatever it was.
    content: Option<Option<Tenure>>,
    /// It lost its last name, and stays.
    kept: Option<Arc<OpenFile>>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Known {
    parts: [Mutex<HashMap<u64, Entry>>; PARTS],
}

impl Known {
    fn part(&self, inode: InodeNumber) -> &Mutex<HashMap<u64, Entry>> {
        &self.parts[inode.0 as usize % PARTS]
    }

    /// The kernel is told of an inode once more.
    pub(super) fn note(&self, inode: InodeNumber) {
        self.part(inode).lock().entry(inode.0).or_default().lookups += 1;
    }

    /// Whether it knows the inode.
    pub(super) fn has(&self, inode: InodeNumber) -> bool {
        inode == InodeNumber::ROOT || self.part(inode).lock().contains_key(&inode.0)
    }

    /// It has forgotten an inode so many times. Answers what was kept for it, if that was the last time.
    pub(super) fn forget(&self, inode: InodeNumber, lookups: u64) -> Option<Arc<OpenFile>> {
        let mut part = self.part(inode).lock();
        let entry = part.get_mut(&inode.0)?;
        entry.lookups = entry.lookups.saturating_sub(lookups);
        if entry.lookups > 0 {
            return None;
        }
        part.remove(&inode.0)?.kept
    }

    /// Keeps an inode that has lost its last name, if the kernel knows it; or else answers it again.
    pub(super) fn keep(&self, file: Arc<OpenFile>) -> Option<Arc<OpenFile>> {
        let inode = file.inode();
        match self.part(inode).lock().get_mut(&inode.0) {
            Some(entry) if entry.kept.is_none() => {
                entry.kept = Some(file);
                None
            }
            _ => Some(file),
        }
    }

    /// Content of the inode may be cached from now on.
    pub(super) fn note_content(&self, inode: InodeNumber) {
        if let Some(entry) = self.part(inode).lock().get_mut(&inode.0) {
            entry.content.get_or_insert_default();
        }
    }

    /// What is cached of it may be wrong.
    pub(super) fn doubt_content(&self, inode: InodeNumber) {
        if let Some(entry) = self.part(inode).lock().get_mut(&inode.0) {
            entry.content = Some(None);
        }
    }

    /// Whether content may be cached that was not read under `tenure`.
    pub(super) fn may_have_other_content(&self, inode: InodeNumber, tenure: Tenure) -> bool {
        let part = self.part(inode).lock();
        let content = part.get(&inode.0).and_then(|entry| entry.content.as_ref());
        content.is_some_and(|under| *under != Some(tenure))
    }

    /// What is cached of it was read under `tenure`.
    pub(super) fn note_tenure(&self, inode: InodeNumber, tenure: Tenure) {
        if let Some(entry) = self.part(inode).lock().get_mut(&inode.0) {
            entry.content = Some(Some(tenure));
        }
    }

    /// Forgets all, and answers what was kept.
    pub(super) fn take_all(&self) -> Vec<Arc<OpenFile>> {
        let parts = self.parts.iter().flat_map(|part| std::mem::take(&mut *part.lock()));
        parts.filter_map(|(_, entry)| entry.kept).collect()
    }
}
