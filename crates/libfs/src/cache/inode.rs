//! An inode as this session knows it: its record, its content, its lease.
//!
//! A state is true while `lease` is set and the session's generation stands. Without a lease nothing in it
//! means anything. An operation locks several inodes in the order of their numbers.

use crate::cache::directory_content::DirectoryContent;
use crate::cache::extended_set::{AccessListKind, ExtendedSet, NONE};
use crate::cache::file_content::FileContent;
use crate::leases::parcel_store::ParcelItem;
use crate::mapped::file::MappedFile;
use crate::sharing::terms::ShippedUntil;
use crate::steering::predictions::Predictions;
use crate::sync::{Arc, AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering, RwLock};
use cuesta_format::wire::{Grant, KeptNames, LeaseMode};
use cuesta_format::{FileKind, InodeNumber, InodeRecord, LogPosition, Timestamp};
use std::ops::Range;

/// How often inodes were filled, in all sessions of the process.
static FILLS: AtomicU64 = AtomicU64::new(0);

/// A number under which no inode was filled before.
pub(crate) fn next_fill() -> u64 {
    FILLS.fetch_add(1, Ordering::Relaxed) + 1
}

/// An inode.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) number: InodeNumber,
    pub(crate) state: RwLock<State>,
    /// Open files on it in this session. It rises only under `state` while the inode has a name, so that an
    /// unlink sees it.
    pub(crate) opens: AtomicU32,
    /// This session removed its last name while it was open, or made it without a name. So this session
    /// releases it.
    pub(crate) orphaned: AtomicBool,
    /// Time of last access. It changes under a shared lock ([`crate::calls::attributes::access_times`]).
    accessed: AtomicI64,
    /// A program synced the file since the last write.
    pub(crate) synced: AtomicBool,
    /// Until when SharedFS performs the operations on it ([`crate::sharing::send`]).
    pub(crate) shipped: ShippedUntil,
}

/// An inode's state, as far as the session knows it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) lease: Option<LeaseMode>,
    pub(crate) record: InodeRecord,
    pub(crate) content: Content,
    /// All its extended attributes, if it has any and the session has fetched them.
    pub(crate) extended: Option<Box<ExtendedSet>>,
    /// The end of the last log entry about it.
    pub(crate) logged: LogPosition,
    /// Differs each time a lease fills the state.
    pub(crate) filled: u64,
    /// Predictions of writes, where these are of use.
    pub(crate) predictions: Option<Box<Predictions>>,
    /// It is gone: it has no name, and no file of this session is open on it. No later entry may name it.
    pub(crate) released: bool,
}

/// The content of an inode.
#[derive(Debug)]
pub(crate) enum Content {
    File(FileContent),
    /// A file in mapped mode: the kernel has the content.
    Mapped(Arc<MappedFile>),
    Directory(Box<DirectoryContent>),
    Symlink(Box<[u8]>),
    Special,
}

impl Inode {
    /// An inode of which nothing is known, except perhaps a directory's parent.
    pub(crate) fn unknown(number: InodeNumber, parent: InodeNumber) -> Inode {
        let record = InodeRecord { parent, ..InodeRecord::new(number, 0, 0, 0, Timestamp(0)) };
        Inode::with_state(number, None, record, Content::Special, LogPosition(0))
    }

    /// An inode that this session just made.
    pub(crate) fn made(record: InodeRecord, content: Content, logged: LogPosition) -> Inode {
        Inode::with_state(record.inode, Some(LeaseMode::Write), record, content, logged)
    }

    fn with_state(
        number: InodeNumber,
        lease: Option<LeaseMode>,
        record: InodeRecord,
        content: Content,
        logged: LogPosition,
    ) -> Inode {
        Inode {
            number,
            opens: AtomicU32::new(0),
            orphaned: AtomicBool::new(false),
            accessed: AtomicI64::new(record.accessed.0),
            synced: AtomicBool::new(false),
            shipped: ShippedUntil::default(),
            state: RwLock::new(State {
                lease,
                record,
                content,
                extended: None,
                logged,
                filled: 0,
                predictions: None,
                released: false,
            }),
        }
    }

    pub(crate) fn accessed(&self) -> Timestamp {
        Timestamp(self.accessed.load(Ordering::Relaxed))
    }

    pub(crate) fn set_accessed(&self, time: Timestamp) {
        self.accessed.store(time.0, Ordering::Relaxed);
    }

    /// Fills the state with a grant. State under an earlier lease is newer, and stays.
    pub(crate) fn fill(&self, state: &mut State, grant: Grant) {
        if !self.fill_record(state, grant.mode, grant.record) {
            return;
        }
        self.orphaned.store(grant.kept, Ordering::SeqCst);
        state.extended = (!grant.extended.is_empty()).then(|| Box::new(ExtendedSet::granted(grant.extended)));
        state.content = match grant.record.kind() {
            FileKind::File => {
                let size = grant.record.size;
                Content::File(FileContent::granted(size, grant.extents, grant.extents_complete))
            }
            FileKind::Directory if grant.entries_changed => {
                let Content::Directory(mut content) = std::mem::replace(&mut state.content, Content::Special)
                else {
                    unreachable!("changes of a directory are taken only where it was kept");
                };
                content.apply_changes(grant.entries);
                Content::Directory(content)
            }
            FileKind::Directory => {
                let content = DirectoryContent::granted(grant.entries, grant.entries_complete);
                Content::Directory(Box::new(content))
            }
            FileKind::Symlink => Content::Symlink(grant.target.into_boxed_slice()),
            _ => Content::Special,
        };
    }

    /// Fills the state with an item of a parcel.
    pub(crate) fn fill_taken(&self, state: &mut State, taken: &ParcelItem) {
        let Some(item) = taken.item() else { return };
        let record = item.record();
        if !self.fill_record(state, item.mode(), record) {
            return;
        }
        // SharedFS never grants an inode without a name ahead.
        self.orphaned.store(false, Ordering::SeqCst);
        state.content = match record.kind() {
            FileKind::File => Content::File(FileContent::granted(record.size, item.extents(), true)),
            FileKind::Directory => Content::Directory(Box::new(DirectoryContent::of_all(item.names()))),
            FileKind::Symlink => Content::Symlink(item.target().into()),
            _ => Content::Special,
        };
    }

    /// Takes the attributes. Says whether the caller is to take the content, too.
    fn fill_record(&self, state: &mut State, mode: LeaseMode, record: InodeRecord) -> bool {
        if state.lease.is_some() {
            state.lease = state.lease.max(Some(mode));
            return false;
        }
        self.set_accessed(record.accessed);
        state.lease = Some(mode);
        state.record = record;
        state.extended = None;
        state.logged = LogPosition(0);
        state.filled = next_fill();
        state.released = false;
        true
    }
}

impl State {
    /// Forgets everything, because the lease is gone.
    pub(crate) fn forget(&mut self) {
        self.lease = None;
        self.content = Content::Special;
        self.extended = None;
        self.logged = LogPosition(0);
    }

    /// Forgets everything but the names of a directory, if all of them are known. The next lease brings the
    /// names that changed.
    pub(crate) fn forget_keeping_names(&mut self, kept: KeptNames) {
        let content = std::mem::replace(&mut self.content, Content::Special);
        let changed = self.logged > LogPosition(0);
        self.forget();
        if let Content::Directory(mut directory) = content
            && directory.keep(kept, changed)
        {
            self.content = Content::Directory(directory);
        }
    }

    /// The version of a directory's kept names, if its lease is gone.
    pub(crate) fn kept(&self) -> Option<&KeptNames> {
        self.directory().and_then(DirectoryContent::kept)
    }

    /// Whether its last name is gone.
    #[inline]
    pub(crate) fn is_unlinked(&self) -> bool {
        self.record.links == 0
    }

    #[inline]
    pub(crate) fn kind(&self) -> FileKind {
        self.record.kind()
    }

    /// The directory's content, if it is one.
    #[inline]
    pub(crate) fn directory(&self) -> Option<&DirectoryContent> {
        match &self.content {
            Content::Directory(content) => Some(content),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn directory_mut(&mut self) -> Option<&mut DirectoryContent> {
        match &mut self.content {
            Content::Directory(content) => Some(content),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn file(&self) -> Option<&FileContent> {
        match &self.content {
            Content::File(content) => Some(content),
            _ => None,
        }
    }

    /// Blocks that content in a range adds, if that is known. A file in mapped mode adds none here.
    pub(crate) fn missing(&self, range: Range<u64>) -> Option<u64> {
        self.file().map_or(Some(0), |content| content.missing(range))
    }

    #[inline]
    pub(crate) fn file_mut(&mut self) -> Option<&mut FileContent> {
        match &mut self.content {
            Content::File(content) => Some(content),
            _ => None,
        }
    }

    /// Notes that the content changed at `now`.
    #[inline]
    pub(crate) fn touch_content(&mut self, now: Timestamp) {
        self.record.modified = now;
        self.record.changed = now;
    }

    /// Its extended attributes, if the session knows them.
    #[inline]
    pub(crate) fn extended(&self) -> Option<&ExtendedSet> {
        if self.record.extended == 0 { Some(&NONE) } else { self.extended.as_deref() }
    }

    /// Sets or removes one of its extended attributes. The session must know them.
    pub(crate) fn put_extended(&mut self, name: &[u8], value: Option<&[u8]>) {
        let before =
            self.extended().and_then(|set| set.get(name)).map_or(0, |value| name.len() + value.len());
        let after = value.map_or(0, |value| name.len() + value.len());
        self.record.extended = self.record.extended - before as u32 + after as u32;
        match AccessListKind::of(name) {
            Some(AccessListKind::Access) => self.record.access_list = value.is_some(),
            Some(AccessListKind::Default) => self.record.default_list = value.is_some(),
            None => {}
        }
        let set = self.extended.get_or_insert_default();
        match value {
            Some(value) => set.put(name, value),
            None => set.remove(name),
        }
    }

    /// The file in mapped mode, if it is one.
    #[inline]
    pub(crate) fn mapped(&self) -> Option<&Arc<MappedFile>> {
        match &self.content {
            Content::Mapped(mapped) => Some(mapped),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session knows hundreds of thousands of inodes.
    #[test]
    fn an_inode_is_small() {
        assert!(size_of::<Inode>() <= 320, "{}", size_of::<Inode>());
    }
}
