//! The names of a directory as an open directory shows them: a list made once, in the order of inode numbers.

use cuesta_format::{FileKind, InodeNumber};

/// Bytes of a name, as an estimate.
const NAME_BYTES: usize = 16;

/// One name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryItem<'a> {
    /// The inode that it names.
    pub inode: InodeNumber,
    /// The offset at which reading continues behind it.
    pub next_cookie: u64,
    /// The kind of the inode.
    pub kind: FileKind,
    /// The name.
    pub name: &'a [u8],
}

/// The names of a directory, all in one buffer.
#[derive(Debug)]
pub(crate) struct Listing {
    names: Vec<u8>,
    items: Vec<Item>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    inode: InodeNumber,
    start: u32,
    length: u8,
    kind: FileKind,
}

impl Listing {
    /// An empty list.
    pub(crate) fn empty() -> Listing {
        Listing { names: Vec::new(), items: Vec::new() }
    }

    /// An empty list with memory for `count` names.
    pub(crate) fn with_capacity(count: usize) -> Listing {
        Listing { names: Vec::with_capacity(NAME_BYTES * count), items: Vec::with_capacity(count) }
    }

    /// The items from a cookie on, in the list's order.
    pub(crate) fn from(&self, cookie: u64) -> impl Iterator<Item = DirectoryItem<'_>> {
        let start = usize::try_from(cookie).unwrap_or(usize::MAX).min(self.items.len());
        self.items[start..].iter().zip(start as u64..).map(|(item, index)| {
            let name_start = item.start as usize;
            DirectoryItem {
                inode: item.inode,
                next_cookie: index + 1,
                kind: item.kind,
                name: &self.names[name_start..name_start + usize::from(item.length)],
            }
        })
    }

    /// Sorts all but the first two items (`.` and `..`) by inode number.
    pub(crate) fn sort(&mut self) {
        self.items[2..].sort_unstable_by_key(|item| (item.inode, item.start));
    }

    /// The name of the inode in this directory, apart from `.` and `..`.
    pub(crate) fn name_of(&self, inode: InodeNumber) -> Option<&[u8]> {
        let item = self.items.iter().skip(2).find(|item| item.inode == inode)?;
        let start = item.start as usize;
        self.names.get(start..start + usize::from(item.length))
    }

    /// Adds a name. A list too long to index drops it.
    pub(crate) fn push(&mut self, name: &[u8], inode: InodeNumber, kind: FileKind) {
        let (Ok(start), Ok(length)) = (u32::try_from(self.names.len()), u8::try_from(name.len())) else {
            return;
        };
        self.names.extend_from_slice(name);
        self.items.push(Item { inode, start, length, kind });
    }
}
