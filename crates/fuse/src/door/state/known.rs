//! Inodes the kernel knows: it says how often it learned of each, and later how many of these it has forgotten.
//!
//! One that loses its last name while the kernel knows it stays until the kernel has forgotten it: a process may stand in
//! it, or have it open to name it.

use super::overtaken::{Elsewhere, Node};
use super::pages::Pages;
use cuesta_format::{FileKind, InodeNumber, InodeRecord};
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
    /// Of a directory: the one that the kernel has it in.
    parent: Option<Node>,
    /// Some of its content may be in the kernel's cache, as it was under this; `None`: whatever it was.
    content: Option<Option<Tenure>>,
    /// Its size, as the kernel was told or has made it itself.
    told_size: Option<u64>,
    /// So many answers wait until the kernel has forgotten its content.
    forgetting: u32,
    /// What pages of it the kernel may have.
    pages: Pages,
    /// It lost its last name, and stays.
    kept: Option<Arc<OpenFile>>,
}

/// All of them.
#[derive(Default)]
pub(in crate::door) struct KnownInodes {
    parts: [Mutex<HashMap<u64, Entry>>; PARTS],
}

impl KnownInodes {
    fn part(&self, inode: InodeNumber) -> &Mutex<HashMap<u64, Entry>> {
        &self.parts[inode.0 as usize % PARTS]
    }

    /// The kernel is told of an inode once more, by its name in the directory `parent` if by a name.
    pub(in crate::door) fn note(&self, record: &InodeRecord, parent: Option<Node>) {
        let mut part = self.part(record.inode).lock();
        let entry = part.entry(record.inode.0).or_default();
        entry.lookups += 1;
        if record.kind() == FileKind::Directory {
            entry.parent = entry.parent.or(parent);
        }
    }

    /// Whether the kernel, which found a directory in `parent`, has it in another.
    pub(in crate::door) fn elsewhere(&self, record: &InodeRecord, parent: Node) -> Option<Elsewhere> {
        let known = self.part(record.inode).lock().get(&record.inode.0)?.parent?;
        (known != parent).then_some(Elsewhere { directory: record.inode, parent })
    }

    /// That is where the kernel has it now.
    pub(in crate::door) fn place(&self, found: Elsewhere) {
        if let Some(entry) = self.part(found.directory).lock().get_mut(&found.directory.0) {
            entry.parent = Some(found.parent);
        }
    }

    /// The kernel is about to move a directory, and does so with the real one if it has that in `from`, which is the answer.
    pub(in crate::door) fn begin_move(&self, directory: InodeNumber, from: Node) -> bool {
        let mut part = self.part(directory).lock();
        let Some(Entry { parent: Some(parent), .. }) = part.get_mut(&directory.0) else { return false };
        std::mem::replace(parent, Node::UNKNOWN) == from
    }

    /// The kernel has moved it there, unless it has moved it again.
    pub(in crate::door) fn end_move(&self, found: Elsewhere) {
        if let Some(entry) = self.part(found.directory).lock().get_mut(&found.directory.0)
            && entry.parent == Some(Node::UNKNOWN)
        {
            entry.parent = Some(found.parent);
        }
    }

    /// It has forgotten an inode so many times. Answers what was kept for it, if that was the last time.
    pub(in crate::door) fn forget(&self, inode: InodeNumber, lookups: u64) -> Option<Arc<OpenFile>> {
        let mut part = self.part(inode).lock();
        let entry = part.get_mut(&inode.0)?;
        entry.lookups = entry.lookups.saturating_sub(lookups);
        if entry.lookups > 0 {
            return None;
        }
        part.remove(&inode.0)?.kept
    }

    /// Keeps an inode that has lost its last name, if the kernel knows it; or else answers it again.
    pub(in crate::door) fn keep(&self, file: Arc<OpenFile>) -> Option<Arc<OpenFile>> {
        let inode = file.inode();
        match self.part(inode).lock().get_mut(&inode.0) {
            Some(entry) if entry.kept.is_none() => {
                entry.kept = Some(file);
                None
            }
            _ => Some(file),
        }
    }

    /// Content of the inode may be cached from now on; if none is yet, not of before `tenure`.
    pub(in crate::door) fn note_content(&self, inode: InodeNumber, tenure: Option<Tenure>) {
        if let Some(entry) = self.part(inode).lock().get_mut(&inode.0) {
            entry.content.get_or_insert(tenure);
        }
    }

    /// Of what is cached of it nothing is older than `tenure`.
    pub(in crate::door) fn content_holds(&self, inode: InodeNumber, tenure: Tenure) -> bool {
        let part = self.part(inode).lock();
        part.get(&inode.0).is_none_or(|entry| entry.content.is_none_or(|under| under == Some(tenure)))
    }

    /// Looks at what pages of it the kernel may have, or notes what becomes of them; `None`: it knows no such inode.
    pub(in crate::door) fn pages<T>(
        &self,
        inode: InodeNumber,
        look: impl FnOnce(&mut Pages) -> T,
    ) -> Option<T> {
        self.part(inode).lock().get_mut(&inode.0).map(|entry| look(&mut entry.pages))
    }

    /// The kernel's cached content of it may be wrong.
    pub(in crate::door) fn doubt_content(&self, inode: InodeNumber) {
        if let Some(entry) = self.part(inode).lock().get_mut(&inode.0) {
            entry.content = Some(None);
        }
    }

    /// The kernel is told of an inode's attributes.
    pub(in crate::door) fn tell(&self, record: &InodeRecord) {
        if let Some(entry) = self.part(record.inode).lock().get_mut(&record.inode.0) {
            entry.told_size = Some(record.size);
        }
    }

    /// Whether the kernel knows the size already.
    pub(in crate::door) fn is_told(&self, record: &InodeRecord) -> bool {
        let part = self.part(record.inode).lock();
        part.get(&record.inode.0).is_some_and(|entry| entry.told_size == Some(record.size))
    }

    /// It takes a file to reach to `end` at least, which was written there.
    pub(in crate::door) fn note_end(&self, inode: InodeNumber, end: u64) {
        if let Some(entry) = self.part(inode).lock().get_mut(&inode.0) {
            entry.told_size = entry.told_size.map(|size| size.max(end));
        }
    }

    /// The kernel is about to be told of attributes, and may have content that was not read under `tenure`. Whether it
    /// must be made to forget that: it does so by itself where the size is another than it knew, unless it `ignores` the answer,
    /// because it was told that attributes are in doubt since it asked. Content that it caches from then on is read under `tenure`.
    pub(in crate::door) fn must_forget_content(
        &self,
        record: &InodeRecord,
        tenure: Tenure,
        ignores: bool,
    ) -> bool {
        let mut part = self.part(record.inode).lock();
        let Some(entry) = part.get_mut(&record.inode.0) else { return false };
        let told = entry.told_size;
        if !ignores {
            entry.told_size = Some(record.size);
        }
        let must = match &mut entry.content {
            Some(under) if *under != Some(tenure) => {
                *under = Some(tenure);
                // An answer is ignored when content is forgotten meanwhile: where there is none, the size must arrive.
                entry.pages.may_be_there() && (ignores || told.is_none_or(|size| size == record.size))
            }
            // While the kernel forgets content for one request, a request beside it must not go on with content that is still there.
            _ => entry.forgetting > 0,
        };
        entry.forgetting += u32::from(must);
        if must {
            entry.pages.forget();
        }
        must
    }

    /// It has forgotten it.
    pub(in crate::door) fn forgot_content(&self, inode: InodeNumber) {
        if let Some(entry) = self.part(inode).lock().get_mut(&inode.0) {
            entry.forgetting = entry.forgetting.saturating_sub(1);
        }
    }

    /// Forgets all, and answers what was kept.
    pub(in crate::door) fn take_all(&self) -> Vec<Arc<OpenFile>> {
        let parts = self.parts.iter().flat_map(|part| std::mem::take(&mut *part.lock()));
        parts.filter_map(|(_, entry)| entry.kept).collect()
    }
}
