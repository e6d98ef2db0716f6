//! Reading directories.
//!
//! An open directory is read from a list ([`crate::open_files::listing`]) that is made when it is read from
//! the start. POSIX leaves open whether names that are made or removed later appear. An item's cookie is its
//! place in the list.

use crate::cache::inode::Inode;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::{Error, unexpected};
use crate::open_files::listing::{DirectoryItem, Listing};
use crate::open_files::open_file::OpenFile;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{FileKind, InodeNumber};

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
            *listing = Some(self.operate(|_attempt| self.list(file.inode_ref(), file.flags()))?);
        }
        let Some(listing) = listing.as_ref() else {
            return Ok(());
        };
        for item in listing.from(*offset) {
            let next_cookie = item.next_cookie;
            if !sink(item) {
                break;
            }
            *offset = next_cookie;
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
                self.fetch_all_names(inode)?;
                continue;
            }
            if state.is_unlinked() {
                return Ok(Listing::empty());
            }
            let mut listing = Listing::with_capacity(2 + content.len());
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
            listing.sort();
            return Ok(listing);
        }
    }

    /// Fetches every name that is not known yet. The directory stays locked over each question: what SharedFS
    /// answers is older than what is cached, never newer.
    pub(crate) fn fetch_all_names(&self, inode: &Inode) -> Result<(), Error> {
        loop {
            let mut state = inode.state.write();
            let Some(content) = state.directory_mut() else {
                return Ok(());
            };
            let Some(after) = content.listed_to() else {
                return Ok(());
            };
            // Read before the question: the answer may lack what is retired while SharedFS answers.
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
