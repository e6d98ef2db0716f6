//! In the daemon: performing the operations that other sessions sent ([`crate::sharing::send`]).

use crate::calls::attributes::values::Stat;
use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::paths::credentials::Credentials;
use crate::paths::path::Target;
use crate::sharing::shipped::{ShippedChange, ShippedFile};
use crate::sync::Arc;
use cuesta_media::{UserSlice, UserSliceMut};

impl Client {
    /// In the daemon: opens the file of a sent operation, and performs it.
    pub fn perform<T>(
        &self,
        file: &ShippedFile,
        operation: impl FnOnce(&Arc<OpenFile>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let open = self.reopen_for(file)?;
        let answer = operation(&open);
        self.close(open)?;
        answer
    }

    /// In the daemon: performs a sent write.
    pub fn perform_write(
        &self,
        file: &ShippedFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error> {
        self.perform(file, |open| {
            let written = self.write_within(open, data, at, file.limit.min(self.file_limit()))?;
            self.sync_if_asked(open)?;
            Ok(written)
        })
    }

    /// In the daemon: performs a sent read.
    pub fn perform_read(
        &self,
        file: &ShippedFile,
        out: &mut [UserSliceMut<'_>],
        at: u64,
    ) -> Result<usize, Error> {
        self.perform(file, |open| self.read_at(open, out, at))
    }

    /// In the daemon: performs a sent change, with the sender's credentials.
    pub fn perform_change(
        &self,
        credentials: &Credentials,
        file: &ShippedFile,
        change: ShippedChange,
    ) -> Result<(), Error> {
        self.perform(file, |open| {
            let grown = match change {
                ShippedChange::Truncate { size } => u64::try_from(size).ok(),
                ShippedChange::Allocate { offset, length, .. } => {
                    offset.checked_add(length).and_then(|end| u64::try_from(end).ok())
                }
                ShippedChange::Sync | ShippedChange::SetAttributes { .. } => None,
            };
            if grown.is_some_and(|size| size > file.limit) && grown > Some(self.stat_open(open)?.record.size)
            {
                return Err(Error::OverLimit);
            }
            match change {
                ShippedChange::Truncate { size } => self.truncate_open(open, size),
                ShippedChange::Allocate { what, offset, length } => self.allocate(open, what, offset, length),
                ShippedChange::Sync => self.fsync(open),
                ShippedChange::SetAttributes { set } => {
                    self.set_attributes(credentials, Target::File(open), set)
                }
            }
        })
    }

    /// In the daemon: the attributes of the inode.
    pub fn perform_stat(&self, file: &ShippedFile) -> Result<Stat, Error> {
        self.perform(file, |open| self.stat_open(open))
    }
}
