//! A write takes away what gives the process that runs a file its owner's rights: set-id bits, and
//! `security.capability`.
//!
//! Which set-id bits go depends on the writer ([`crate::paths::credentials::Writer`]). Capabilities always
//! go. LibFS takes both away before the content changes. If the kernel writes for a process, its door calls
//! [`Client::take_rights_of`].

use crate::cache::inode::Inode;
use crate::client::client::Client;
use crate::errno::Error;
use crate::paths::credentials::{Credentials, Writer};
use crate::paths::path::Base;
use cuesta_format::operation::Attributes;
use cuesta_format::{FileKind, InodeNumber, Operation};

impl Client {
    /// Takes set-id bits and capabilities away, before another user's content replaces the file's.
    pub(crate) fn take_rights(&self, inode: &Inode, writer: Writer) -> Result<(), Error> {
        self.take_capability(inode)?;
        self.operate(|attempt| {
            let empty = Operation::SetAttributes { inode: inode.number, attributes: Attributes::default() };
            attempt.prepare(empty.body_bytes(), 0)?;
            let mut state = self.changing(inode)?;
            let taken = writer.takes(&state.record);
            if taken == 0 || state.released {
                return Ok(());
            }
            let mode = state.record.mode & !taken;
            let attributes = Attributes { mode: Some(mode & 0o7777), ..Attributes::default() };
            let appended = attempt.append(&Operation::SetAttributes { inode: inode.number, attributes })?;
            state.record.mode = mode;
            state.record.changed = attempt.now;
            state.logged = appended.end;
            Ok(())
        })
    }

    /// Takes away what a write by `credentials` takes away, without writing. Says whether anything was taken.
    pub fn take_rights_of(&self, credentials: &Credentials, number: InodeNumber) -> Result<bool, Error> {
        let found = self.operate(|_attempt| {
            let (inode, kind) = self.find(credentials, Base::Inode(number), b"", false)?;
            if kind != FileKind::File {
                return Ok(None);
            }
            let state = self.reading(&inode)?;
            let writer = credentials.writer(&state.record);
            let loses = state.loses_rights(writer);
            drop(state);
            Ok(loses.then_some((inode, writer)))
        })?;
        let Some((inode, writer)) = found else { return Ok(false) };
        self.take_rights(&inode, writer)?;
        Ok(true)
    }
}
