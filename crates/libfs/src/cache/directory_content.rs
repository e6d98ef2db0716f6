//! The content of a directory: the names that are known, and whether an unknown name may exist.
//!
//! A directory that this session made, or listed once, is complete: a name that is not in it does not exist.
//! In an incomplete directory, removed names are remembered until SharedFS knows that they are gone.

use crate::cache::split_table::SplitTable;
use crate::sync::{AtomicU32, Ordering};
use cuesta_format::wire::{BESIDE_MAX, DirectoryEntry, KeptNames};
use cuesta_format::{FileKind, InodeNumber, LogPosition};
use hashbrown::{DefaultHashBuilder, HashMap};
use std::hash::BuildHasher;

/// Removed names that are remembered before those that SharedFS knows of are swept out.
const TAKEN_KEPT: usize = 1024;

/// A session fetches all names of an incomplete directory after this many requests for single names. It must
/// also have asked for one in this many of its names. One request takes as long as some eighty names of a
/// listing.
const ASKED_ONE_BY_ONE_MIN: u32 = 16;
const NAMES_FOR_A_QUESTION: u64 = 64;

/// A larger directory is never fetched whole: its names would take hundreds of megabytes.
const FETCHED_NAMES_MAX: u64 = 1 << 20;

/// How many directories are requested along with the second one in the same parent.
const BESIDE_FIRST: usize = 16;

/// How many names are searched for directories to request.
const NAMES_SEARCHED_MAX: usize = 4096;

/// The target of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameTarget {
    pub(crate) inode: InodeNumber,
    pub(crate) kind: FileKind,
}

/// A name, as far as the session knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameState {
    Present(NameTarget),
    Absent,
    /// SharedFS must be asked.
    Unknown,
}

/// The longest name that is stored inline.
const SHORT_BYTES_MAX: usize = 30;

/// A stored name.
#[derive(Debug)]
enum StoredName {
    Short { length: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Box<[u8]>),
}

impl StoredName {
    #[inline]
    fn new(name: &[u8]) -> StoredName {
        let mut bytes = [0; SHORT_BYTES_MAX];
        match bytes.get_mut(..name.len()) {
            Some(start) => {
                start.copy_from_slice(name);
                StoredName::Short { length: name.len() as u8, bytes }
            }
            None => StoredName::Long(name.into()),
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            StoredName::Short { length, bytes } => &bytes[..usize::from(*length)],
            StoredName::Long(name) => name,
        }
    }
}

#[derive(Debug)]
struct Entry {
    name: StoredName,
    named: NameTarget,
}

/// The table of names.
#[derive(Debug)]
struct Names {
    table: SplitTable<Entry>,
    hasher: DefaultHashBuilder,
}

impl Names {
    fn new() -> Names {
        Names { table: SplitTable::new(), hasher: DefaultHashBuilder::default() }
    }

    #[inline]
    fn get(&self, name: &[u8]) -> Option<NameTarget> {
        let found = self.table.find(self.hasher.hash_one(name), |entry| entry.name.bytes() == name)?;
        Some(found.named)
    }

    /// Adds a name that is not in the table.
    #[inline]
    fn enter(&mut self, hash: u64, name: &[u8], named: NameTarget) {
        let hasher = &self.hasher;
        let entry = Entry { name: StoredName::new(name), named };
        self.table.insert_new(hash, entry, |entry| hasher.hash_one(entry.name.bytes()));
    }

    /// Adds a name. If it is there and `replaces` is set, changes its target.
    #[inline]
    fn put(&mut self, name: &[u8], named: NameTarget, replaces: bool) {
        let hash = self.hasher.hash_one(name);
        match self.table.find_mut(hash, |entry| entry.name.bytes() == name) {
            Some(entry) if replaces => entry.named = named,
            Some(_) => {}
            None => self.enter(hash, name, named),
        }
    }

    #[inline]
    fn remove(&mut self, name: &[u8]) {
        self.table.remove(self.hasher.hash_one(name), |entry| entry.name.bytes() == name);
    }
}

/// The content.
#[derive(Debug)]
pub(crate) struct DirectoryContent {
    names: Names,
    taken: HashMap<Box<[u8]>, LogPosition>,
    /// How many removed names were left after the last sweep.
    taken_swept: usize,
    complete: bool,
    listed_to: Vec<u8>,
    /// Requests for single names.
    asked: u32,
    /// How often a directory in it was requested. The next request may bring others along.
    beside: AtomicU32,
    /// The lease is gone, and the names were complete as of this version.
    kept: Option<KeptNames>,
    /// The session changed it under the last lease.
    changed: bool,
}

impl DirectoryContent {
    /// The content of a new directory.
    pub(crate) fn empty() -> DirectoryContent {
        DirectoryContent {
            names: Names::new(),
            taken: HashMap::new(),
            taken_swept: 0,
            complete: true,
            listed_to: Vec::new(),
            asked: 0,
            beside: AtomicU32::new(0),
            kept: None,
            changed: false,
        }
    }

    /// The content of a directory in the shared area.
    pub(crate) fn granted(entries: Vec<DirectoryEntry>, complete: bool) -> DirectoryContent {
        let mut content = DirectoryContent { complete: false, ..DirectoryContent::empty() };
        content.learn(entries, complete, LogPosition(0));
        content
    }

    /// The complete content of a directory in the shared area.
    pub(crate) fn of_all<'a>(
        names: impl Iterator<Item = (&'a [u8], InodeNumber, FileKind)> + Clone,
    ) -> DirectoryContent {
        let mut content = DirectoryContent::empty();
        content.names.table.expect(names.clone().count());
        for (name, inode, kind) in names {
            let hash = content.names.hasher.hash_one(name);
            content.names.enter(hash, name, NameTarget { inode, kind });
        }
        content
    }

    /// Takes entries that follow those listed, in name order. `retired` is a position up to which SharedFS
    /// knew this log.
    pub(crate) fn learn(&mut self, entries: Vec<DirectoryEntry>, complete: bool, retired: LogPosition) {
        if let Some(last) = entries.last() {
            self.listed_to.clone_from(&last.name);
        }
        for entry in entries {
            let Some(kind) = FileKind::from_byte(entry.kind) else { continue };
            if self.taken.get(entry.name.as_slice()).is_some_and(|&taken| taken >= retired) {
                continue;
            }
            self.names.put(&entry.name, NameTarget { inode: entry.inode, kind }, false);
        }
        if complete {
            self.complete = true;
            self.taken = HashMap::new();
            self.listed_to = Vec::new();
        }
    }

    /// Keeps the names although the lease is gone. Says whether they are complete, and so worth keeping.
    pub(crate) fn keep(&mut self, kept: KeptNames, changed: bool) -> bool {
        self.changed = changed;
        let is_whole = self.complete;
        self.kept = Some(kept).filter(|_| is_whole);
        is_whole
    }

    /// The version of the kept names, if the lease is gone.
    pub(crate) fn kept(&self) -> Option<&KeptNames> {
        self.kept.as_ref()
    }

    /// Whether the session will probably change the directory under its next lease.
    pub(crate) fn will_change(&self) -> bool {
        self.kept.is_some() && self.changed
    }

    /// Applies the names that changed while the session had no lease, in their order.
    pub(crate) fn apply_changes(&mut self, changes: Vec<DirectoryEntry>) {
        self.kept = None;
        for DirectoryEntry { name, inode, kind } in changes {
            match FileKind::from_byte(kind) {
                Some(kind) if inode != InodeNumber::NONE => {
                    self.names.put(&name, NameTarget { inode, kind }, true);
                }
                _ => self.names.remove(&name),
            }
        }
    }

    /// Counts a request for a single name. Says whether to fetch all names instead; the directory has `size`.
    pub(crate) fn fetches_all(&mut self, size: u64) -> bool {
        self.asked = self.asked.saturating_add(1);
        self.asked > ASKED_ONE_BY_ONE_MIN
            && size <= FETCHED_NAMES_MAX
            && u64::from(self.asked) > size / NAMES_FOR_A_QUESTION
    }

    /// The last name that SharedFS listed, while more follow.
    pub(crate) fn listed_to(&self) -> Option<&[u8]> {
        (!self.complete).then_some(self.listed_to.as_slice())
    }

    #[inline]
    pub(crate) fn find(&self, name: &[u8], retired: LogPosition) -> NameState {
        match self.names.get(name) {
            Some(named) => NameState::Present(named),
            None if self.complete => NameState::Absent,
            None if self.taken.get(name).is_some_and(|&taken| taken >= retired) => NameState::Absent,
            None => NameState::Unknown,
        }
    }

    /// Sets a name that was made, replaced, or fetched.
    pub(crate) fn put(&mut self, name: &[u8], named: NameTarget) {
        self.names.put(name, named, true);
        if !self.taken.is_empty() {
            self.taken.remove(name);
        }
    }

    /// Removes a name, by an entry at `position`.
    pub(crate) fn take(&mut self, name: &[u8], position: LogPosition, retired: LogPosition) {
        self.names.remove(name);
        if self.complete {
            return;
        }
        if self.taken.len() >= self.taken_swept.saturating_mul(2).max(TAKEN_KEPT) {
            self.taken.retain(|_, taken| *taken >= retired);
            self.taken_swept = self.taken.len();
        }
        self.taken.insert(name.into(), position);
    }

    /// How many names are known now.
    pub(crate) fn len(&self) -> usize {
        self.names.table.len()
    }

    /// The names known now.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&[u8], NameTarget)> {
        self.names.table.iter().map(|entry| (entry.name.bytes(), entry.named))
    }

    /// Directories to request along with `inode`, among those that are `wanted`: none for the first request,
    /// then some, then many. Those with the next higher numbers come first, as programs read directories in
    /// that order.
    pub(crate) fn directories_beside(
        &self,
        inode: InodeNumber,
        mut wanted: impl FnMut(InodeNumber) -> bool,
    ) -> Vec<InodeNumber> {
        let count = match self.beside.fetch_add(1, Ordering::Relaxed) {
            0 => return Vec::new(),
            1 => BESIDE_FIRST,
            _ => BESIDE_MAX,
        };
        let names = self.names.table.iter().take(NAMES_SEARCHED_MAX).map(|entry| entry.named);
        let mut found: Vec<InodeNumber> = names
            .filter(|named| named.kind == FileKind::Directory && named.inode != inode)
            .map(|named| named.inode)
            .filter(|&inode| wanted(inode))
            .collect();
        found.sort_unstable_by_key(|found| found.0.wrapping_sub(inode.0));
        found.truncate(count);
        found
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.table.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, inode: u64) -> DirectoryEntry {
        DirectoryEntry { name: name.into(), inode: InodeNumber(inode), kind: FileKind::File as u8 }
    }

    #[test]
    fn a_name_taken_stays_away_until_shared_fs_knows() {
        let mut content = DirectoryContent::granted(vec![entry("a", 5)], false);
        content.take(b"a", LogPosition(640), LogPosition(0));
        assert_eq!(content.find(b"a", LogPosition(0)), NameState::Absent);
        assert_eq!(content.find(b"b", LogPosition(0)), NameState::Unknown);
        content.learn(vec![entry("a", 5), entry("b", 6)], false, LogPosition(0));
        assert_eq!(content.find(b"a", LogPosition(640)), NameState::Absent);
        assert_eq!(content.find(b"a", LogPosition(704)), NameState::Unknown);
        assert!(matches!(content.find(b"b", LogPosition(0)), NameState::Present(_)));
        assert_eq!(content.listed_to(), Some(b"b".as_slice()));
    }

    #[test]
    fn a_complete_directory_answers_by_itself() {
        let mut content = DirectoryContent::granted(vec![entry("a", 5)], true);
        assert_eq!(content.find(b"b", LogPosition(0)), NameState::Absent);
        content.put(b"b", NameTarget { inode: InodeNumber(7), kind: FileKind::File });
        assert_eq!(content.names().count(), 2);
        assert_eq!(content.listed_to(), None);
    }
}
