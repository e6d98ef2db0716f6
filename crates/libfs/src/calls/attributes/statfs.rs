//! `statfs`: totals of the store, or of a directory with a quota.

use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use cuesta_format::InodeNumber;
use cuesta_format::wire::{Request, Response, StoreTotals};

impl Client {
    /// Totals of the store.
    pub fn statfs(&self) -> Result<StoreTotals, Error> {
        self.statfs_in(InodeNumber::NONE)
    }

    /// Totals for `statfs` of an inode. `tree` is the directory with a quota to which the inode belongs
    /// ([`cuesta_format::InodeRecord::tree`]): the totals are limited to its part.
    pub fn statfs_in(&self, tree: InodeNumber) -> Result<StoreTotals, Error> {
        self.check_alive()?;
        match self.with_daemon(|| {
            self.digest_own_changes()?;
            self.session.ask(&Request::Statfs { tree })
        })? {
            Response::Statfs(totals) => Ok(totals),
            other => Err(unexpected(&other)),
        }
    }

    /// Digests and retires this session's log, so that what it freed counts as free. If the medium is full or
    /// refuses writes, the totals stay as they are.
    fn digest_own_changes(&self) -> Result<(), Error> {
        if self.session.retired() == self.session.appender.completed() {
            return Ok(());
        }
        match self.digest_own_log() {
            Err(Error::NoSpace | Error::Daemon(_)) => Ok(()),
            digested => digested.and_then(|()| self.retire_all()),
        }
    }
}
