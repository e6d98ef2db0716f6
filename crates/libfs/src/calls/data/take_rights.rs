//! A write takes away what gives the process that runs a file its owner's rights: set-id bits, and
//! `security.capability`.
//!
//! Which set-id bits go depends on the writer ([`crate::paths::credentials::Writer`]). Capabilities always
//! go. LibFS takes both away before the content changes. If the kernel writes for a process, its door calls
//! [`Client::take_rights_of`].

use crate::cache::inode::Inode;
use crate::client::client::Client;
use crate::errno::Error;
use crate::paths::credentials::Writer;
use cuesta_format::Operation;
use cuesta_format::operation::Attributes;

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
}
