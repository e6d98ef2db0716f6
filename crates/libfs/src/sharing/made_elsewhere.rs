//! Files that SharedFS makes for a session, in a directory that it keeps ([`crate::sharing::send`]).
//!
//! SharedFS keeps a file without names as long as a session's slots say that it is open
//! ([`crate::session::open_slots`]). Another process may remove the name as soon as the file is made, so the
//! slot must be set before. That takes three steps. The session in the daemon reserves an inode number. The
//! opening session puts that number in a slot. The daemon makes the file with it. The opening session sends
//! its first operations on the file as well, so that a short file needs no lease.

use crate::calls::names::make::NewInode;
use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::open_files::open_handle::OpenHandle;
use crate::paths::access_list::NewMode;
use crate::paths::credentials::Credentials;
use crate::paths::path::Base;
use crate::sync::Arc;
use cuesta_format::wire::Sends;
use cuesta_format::{FileKind, InodeNumber, InodeRecord};
use std::cell::Cell;

/// For this long, operations on a new file are sent.
const TERM_MS: u32 = 20;

/// A file that counts as open and is about to be made.
#[derive(Debug)]
pub struct Awaited(OpenHandle);

impl Client {
    /// Counts the file that will have this number as open, with `flags`.
    #[must_use]
    pub fn await_file(&self, inode: InodeNumber, flags: i32) -> Awaited {
        let inode = self.cache.get_or_insert(inode);
        Awaited(self.count_open(&inode, FileKind::File, flags))
    }

    /// The open file, after SharedFS made it.
    #[must_use]
    pub fn open_made(
        &self,
        credentials: &Credentials,
        awaited: Awaited,
        record: &InodeRecord,
        flags: i32,
    ) -> Arc<OpenFile> {
        awaited.0.inode().shipped.set(Sends::Contents, TERM_MS);
        self.opened(awaited.0, flags, credentials.writer(record), true)
    }

    /// In the daemon: reserves a number for a file.
    pub fn reserve_number(&self) -> Result<InodeNumber, Error> {
        self.operate(|attempt| attempt.number())
    }

    /// In the daemon: makes a file with a reserved number. If the name exists, the error is
    /// [`Error::Exists`], whatever it names. [`Error::Shipped`]: a fence voided the entry, and with it the
    /// number.
    pub fn make_file(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        mode: NewMode,
        number: InodeNumber,
    ) -> Result<InodeRecord, Error> {
        let reserved = Cell::new(Some(number));
        let number = Some(&reserved);
        let new_inode = NewInode { kind: FileKind::File, mode, device: 0, target: b"", open: false, number };
        self.make_at(credentials, base, path, &new_inode)
    }
}
