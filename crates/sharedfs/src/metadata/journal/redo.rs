//! The changes of a transaction as bytes, in the order of tables and keys: the journal keeps them, and the tree
//! takes them.
//!
//! Each change: table u8, length of the key u16, length of the value u32 (all ones: the key is removed), key, value.
//! Little-endian; nothing read is trusted.

use crate::metadata::MetadataError;
use crate::metadata::codec::Table;

const HEADER_BYTES: usize = 7;
const REMOVED: u32 = u32::MAX;

/// Changes, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Redo {
    bytes: Vec<u8>,
    changes: u64,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    pub(crate) table: Table,
    pub(crate) key: &'a [u8],
    /// `None`: the key is removed.
    pub(crate) value: Option<&'a [u8]>,
}

impl Redo {
    /// Adds a change. Keys are short: the longest has a name of a file in it.
    pub(crate) fn push(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        self.changes += 1;
        self.bytes.push(table as u8);
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        let length = value.map_or(REMOVED, |value| value.len() as u32);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// Forgets them, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.changes = 0;
    }

    /// Bytes of memory it keeps.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.changes
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn changes(&self) -> Changes<'_> {
        changes(&self.bytes)
    }
}

/// The changes that bytes say.
pub(crate) fn changes(bytes: &[u8]) -> Changes<'_> {
    Changes { rest: bytes }
}

/// Reads changes; ends behind the first that makes no sense.
#[derive(Clone, Debug)]
pub(crate) struct Changes<'a> {
    rest: &'a [u8],
}

impl<'a> Changes<'a> {
    fn take(&mut self) -> Option<Change<'a>> {
        let (header, rest) = self.rest.split_first_chunk::<HEADER_BYTES>()?;
        let [table, k0, k1, v0, v1, v2, v3] = *header;
        let value_length = u32::from_le_bytes([v0, v1, v2, v3]);
        let (key, rest) = rest.split_at_checked(u16::from_le_bytes([k0, k1]).into())?;
        let (value, rest) = match value_length {
            REMOVED => (None, rest),
            length => rest.split_at_checked(length as usize).map(|(value, rest)| (Some(value), rest))?,
        };
        self.rest = rest;
        Some(Change { table: Table::from_byte(table)?, key, value })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, MetadataError>;

    fn next(&mut self) -> Option<Result<Change<'a>, MetadataError>> {
        if self.rest.is_empty() {
            return None;
        }
        let change = self.take().ok_or_else(|| MetadataError::Damaged("a change in its journal".into()));
        if change.is_err() {
            self.rest = &[];
        }
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_as_they_were_and_rubbish_is_an_error() {
        let mut redo = Redo::default();
        redo.push(Table::Inodes, &[1; 8], Some(&[7; 300]));
        redo.push(Table::Dirents, b"12345678name", None);
        redo.push(Table::Orphans, &[2; 16], Some(&[]));
        let all: Vec<_> = redo.changes().map(Result::unwrap).collect();
        assert_eq!(all[0], Change { table: Table::Inodes, key: &[1; 8], value: Some(&[7; 300]) });
        assert_eq!(all[1], Change { table: Table::Dirents, key: b"12345678name", value: None });
        assert_eq!(all[2], Change { table: Table::Orphans, key: &[2; 16], value: Some(&[]) });
        assert_eq!(all.len(), 3);
        for cut in 1..redo.bytes().len() {
            let read: Vec<_> = changes(&redo.bytes()[..cut]).collect();
            assert!(read.len() < 3 || read.iter().any(Result::is_err), "{cut} bytes");
        }
        let mut foreign = redo.bytes().to_vec();
        foreign[0] = 200;
        assert!(changes(&foreign).next().unwrap().is_err());
    }
}
