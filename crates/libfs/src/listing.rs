//! Reading directories.
//!
//! An open directory is read from a list made when it is read from the start (POSIX leaves open what names made or
//! taken away later do), in the order of inode numbers. An item's cookie is its place in the list.

use crate::client::{Client, Halt};
use crate::errno::Error;
use crate::inode::Inode;
use crate::open_file::OpenFile;
use crate::session::unexpected;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{FileKind, InodeNumber};

/// About so long is a name.
const NAME_BYTES: usize = 16;

/// One name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryItem<'a> {
    /// What it names.
    pub inode: InodeNumber,
    /// The offset at which reading goes on behind it.
    pub next_cookie: u64,
    /// The kind of what it names.
    pub kind: FileKind,
    /// The name.
    pub name: &'a [u8],
}

/// What a directory held: all names in one run of bytes.
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

impl Client {
    /// Hands names to `sink`, from the file's offset on, until it takes no more; `.` and `..` come first.
    pub fn read_directory(
        &self,
        file: &OpenFile,
        sink: &mut dyn FnMut(DirectoryItem<'_>) -> bool,
    ) -> Result<(), Error> {
        file.check_readable()?;
        if file.kind() != FileKind::Directory {
            return Err(Error::NotDirectory);
        }
        let mut offset = file.offset.lock();
        let mut listing = file.listing.lock();
        if *offset == 0 || listing.is_none() {
            *listing = Some(self.operate(|_turn| self.list(file.inode_ref(), file.flags()))?);
        }
        let Some(listing) = listing.as_ref() else {
            return Ok(());
        };
        let start = usize::try_from(*offset).unwrap_or(usize::MAX).min(listing.items.len());
        for (item, index) in listing.items[start..].iter().zip(start as u64..) {
            let name_start = item.start as usize;
            let taken = sink(DirectoryItem {
                inode: item.inode,
                next_cookie: index + 1,
                kind: item.kind,
                name: &listing.names[name_start..name_start + usize::from(item.length)],
            });
            if !taken {
                break;
            }
            *offset = index + 1;
        }
        Ok(())
    }

    pub(crate) fn list(&self, inode: &Inode, flags: i32) -> Result<Listing, Halt> {
        loop {
            let state = self.reading(inode)?;
            let Some(content) = state.directory() else {
                return Err(Error::NotDirectory.into());
            };
            if content.listed_to().is_some() {
                drop(state);
                self.complete(inode)?;
                continue;
            }
            let mut listing = Listing { names: Vec::new(), items: Vec::new() };
            if state.is_unlinked() {
                return Ok(listing);
            }
            listing.items.reserve(2 + content.len());
            listing.names.reserve(NAME_BYTES * (2 + content.len()));
            let parent = match state.record.parent {
                InodeNumber::NONE => inode.number,
                parent => parent,
            };
            listing.push(b".", inode.number, FileKind::Directory);
            listing.push(b"..", parent, FileKind::Directory);
            for (name, named) in content.names() {
                listing.push(name, named.inode, named.kind);
            }
            self.note_access(flags, inode, &state);
            drop(state);
            listing.items[2..].sort_unstable_by_key(|item| (item.inode, item.start));
            return Ok(listing);
        }
    }

    /// Fetches every name that is not known yet. The lock is held over each question: what SharedFS answers is
    /// older than what is cached, never newer.
    pub(crate) fn complete(&self, inode: &Inode) -> Result<(), Error> {
        loop {
            let mut state = inode.state.write();
            let Some(content) = state.directory_mut() else {
                return Ok(());
            };
            let Some(after) = content.listed_to() else {
                return Ok(());
            };
            // Before the question: what is retired while it is answered may be news to the answer.
            let retired = self.session.retired();
            let request = Request::List { parent: inode.number, after: after.to_vec() };
            let answer = self.session.ask(&request)?;
            let Response::Entries { entries, complete } = answer else {
                return Err(unexpected(&answer));
            };
            let complete = complete || entries.is_empty();
            content.learn(entries, complete, retired);
        }
    }
}

impl Listing {
    /// What the inode is called, apart from `.` and `..`.
    pub(crate) fn name_of(&self, inode: InodeNumber) -> Option<&[u8]> {
        let item = self.items.iter().skip(2).find(|item| item.inode == inode)?;
        let start = item.start as usize;
        self.names.get(start..start + usize::from(item.length))
    }

    fn push(&mut self, name: &[u8], inode: InodeNumber, kind: FileKind) {
        let (Ok(start), Ok(length)) = (u32::try_from(self.names.len()), u8::try_from(name.len())) else {
            return;
        };
        self.names.extend_from_slice(name);
        self.items.push(Item { inode, start, length, kind });
    }
}
