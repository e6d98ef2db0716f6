//! Reading the tree and, in front of it, the commits since the tree was last written: the journal's changes, in
//! memory, by table and key.
//!
//! The maps share most of their memory with the ones they were made from. So a reader keeps the state it began with
//! while the next commits are added.

use crate::metadata::MetadataError;
use crate::metadata::codec::Table;
use crate::metadata::journal::redo::{self, Change};
use imbl::OrdMap;
use imbl::ordmap::RangedIter;
use imbl::shared_ptr::DefaultSharedPtr;
use redb::{AccessGuard, Range, ReadOnlyTable, ReadTransaction, TableError};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::{Bound, Deref};
use std::sync::{Arc, OnceLock};

type Raw = &'static [u8];
/// What became of keys: `None` is a key that was removed.
type Layer = OrdMap<Bytes, Option<Bytes>>;
type PairInTree = (AccessGuard<'static, Raw>, AccessGuard<'static, Raw>);
type PairInLayer<'a> = (&'a Bytes, &'a Option<Bytes>);

/// Bounds of a range of keys.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// All keys.
pub(crate) const EVERYTHING: Bounds<'static> = (Bound::Unbounded, Bound::Unbounded);

/// A key or a value, where it lies in the changes it came with: they stay for as long as one of them is needed. All that
/// are kept so are in the journal, which bounds them.
#[derive(Clone, Debug)]
pub(crate) struct Bytes {
    changes: Arc<[u8]>,
    start: u32,
    end: u32,
}

impl Bytes {
    /// `part` is a part of `changes`.
    fn new(changes: &Arc<[u8]>, part: &[u8]) -> Bytes {
        let start = part.as_ptr().addr() - changes.as_ptr().addr();
        debug_assert!(start + part.len() <= changes.len());
        Bytes { changes: Arc::clone(changes), start: start as u32, end: (start + part.len()) as u32 }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.changes[self.start as usize..self.end as usize]
    }
}

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Bytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Bytes) -> Ordering {
        (**self).cmp(&**other)
    }
}

/// Committed changes that are not in the tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    layers: [Layer; Table::ALL.len()],
}

impl Overlay {
    /// Adds changes, as [`redo`] codes them.
    pub(crate) fn apply(&mut self, changes: &[u8]) -> Result<(), MetadataError> {
        let changes: Arc<[u8]> = changes.into();
        for change in redo::changes(&changes) {
            let Change { table, key, value } = change?;
            let value = value.map(|value| Bytes::new(&changes, value));
            self.layers[table as usize].insert(Bytes::new(&changes, key), value);
        }
        Ok(())
    }

    /// How many keys it speaks of.
    pub(crate) fn keys(&self) -> u64 {
        self.layers.iter().map(|layer| layer.len() as u64).sum()
    }

    /// Its word on a key: `None` is nothing, `Some(None)` that the key is removed.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&Bytes>> {
        self.layers[table as usize].get(key).map(Option::as_ref)
    }

    /// All that it says of a table, in order.
    pub(crate) fn all(&self, table: Table) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.layers[table as usize].iter().map(|(key, value)| (&key[..], value.as_deref()))
    }
}

/// The tree at one of its commits. Tables are opened as they are looked at: most questions look at one or two.
pub(crate) struct TreeAt {
    reading: ReadTransaction,
    tables: [OnceLock<ReadOnlyTable<Raw, Raw>>; Table::ALL.len()],
}

impl TreeAt {
    pub(crate) fn new(reading: ReadTransaction) -> TreeAt {
        TreeAt { reading, tables: Default::default() }
    }

    /// A table of it; `None`: the store is of before there was this table, and has nothing in it.
    pub(crate) fn table(&self, table: Table) -> Result<Option<&ReadOnlyTable<Raw, Raw>>, MetadataError> {
        let place = &self.tables[table as usize];
        if let Some(opened) = place.get() {
            return Ok(Some(opened));
        }
        match self.reading.open_table(table.definition()) {
            Err(TableError::TableDoesNotExist(_)) if matches!(table, Table::Calls | Table::Windows) => {
                Ok(None)
            }
            opened => {
                let opened = opened?;
                Ok(Some(place.get_or_init(|| opened)))
            }
        }
    }
}

/// A key or a value, wherever it lies.
pub(crate) enum StoredBytes {
    Tree(AccessGuard<'static, Raw>),
    Overlay(Bytes),
}

impl Deref for StoredBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            StoredBytes::Tree(guard) => guard.value(),
            StoredBytes::Overlay(bytes) => bytes,
        }
    }
}

/// The value of a key.
pub(crate) fn get(
    tree: &TreeAt,
    overlay: &Overlay,
    table: Table,
    key: &[u8],
) -> Result<Option<StoredBytes>, MetadataError> {
    match overlay.get(table, key) {
        Some(value) => Ok(value.cloned().map(StoredBytes::Overlay)),
        None => match tree.table(table)? {
            Some(opened) => Ok(opened.get(key)?.map(StoredBytes::Tree)),
            None => Ok(None),
        },
    }
}

/// Which pair of a range comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forwards,
    Backwards,
}

/// The first key of a table's tree that is `from` or lies behind it.
pub(crate) fn next_in_tree(
    tree: &TreeAt,
    table: Table,
    from: &[u8],
) -> Result<Option<AccessGuard<'static, Raw>>, MetadataError> {
    let bounds: Bounds<'_> = (Bound::Included(from), Bound::Unbounded);
    let Some(opened) = tree.table(table)? else { return Ok(None) };
    let next = opened.range::<&[u8]>(bounds)?.next().transpose()?;
    Ok(next.map(|(key, _)| key))
}

/// Pairs of a range, in order of their keys or in the other one.
pub(crate) fn range<'a>(
    tree: &TreeAt,
    overlay: &'a Overlay,
    table: Table,
    bounds: Bounds<'_>,
    direction: Direction,
) -> Result<Merged<'a>, MetadataError> {
    Ok(Merged {
        tree: tree.table(table)?.map(|opened| opened.range::<&[u8]>(bounds)).transpose()?,
        overlay: overlay.layers[table as usize].range::<_, [u8]>(bounds),
        next_of_tree: None,
        next_of_overlay: None,
        is_backwards: direction == Direction::Backwards,
    })
}

/// Pairs of both.
pub(crate) struct Merged<'a> {
    tree: Option<Range<'static, Raw, Raw>>,
    overlay: RangedIter<'a, Bytes, Option<Bytes>, DefaultSharedPtr>,
    next_of_tree: Option<PairInTree>,
    next_of_overlay: Option<PairInLayer<'a>>,
    is_backwards: bool,
}

impl Merged<'_> {
    fn step(&mut self) -> Result<Option<(StoredBytes, StoredBytes)>, MetadataError> {
        loop {
            if let Some(tree) = self.tree.as_mut().filter(|_| self.next_of_tree.is_none()) {
                let next = if self.is_backwards { tree.next_back() } else { tree.next() };
                self.next_of_tree = next.transpose()?;
            }
            if self.next_of_overlay.is_none() {
                self.next_of_overlay =
                    if self.is_backwards { self.overlay.next_back() } else { self.overlay.next() };
            }
            let order = match (&self.next_of_tree, &self.next_of_overlay) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((key, _)), Some((newer, _))) => {
                    let order = key.value().cmp(&newer[..]);
                    if self.is_backwards { order.reverse() } else { order }
                }
            };
            if order.is_le() {
                let old = self.next_of_tree.take();
                if order.is_lt() {
                    return Ok(old.map(|(key, value)| (StoredBytes::Tree(key), StoredBytes::Tree(value))));
                }
            }
            if let Some((key, Some(value))) = self.next_of_overlay.take() {
                return Ok(Some((StoredBytes::Overlay(key.clone()), StoredBytes::Overlay(value.clone()))));
            }
        }
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<(StoredBytes, StoredBytes), MetadataError>;

    fn next(&mut self) -> Option<Result<(StoredBytes, StoredBytes), MetadataError>> {
        self.step().transpose()
    }
}
