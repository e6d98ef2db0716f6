//! Waiting until what was done is durable: `fsync` and its like.
//!
//! On `pmem` and `memory` everything is durable when it returns, and nothing is waited for. On `block` the session's log is
//! written to the disk, all of it up to now: who asks for one file gets what was done before it, so that a prefix
//! survives; and what this session saw of the log of SharedFS's own one ([`crate::sharing::log_dependencies`]). What others did to the file is made durable by them or by SharedFS, which digests what they logged before
//! this session may read it: so who waits for a file first sees that it may read it.

use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::sharing::shipped::ShippedChange;
use cuesta_format::Medium;
use cuesta_media::{Piece, Window};
use libc::O_DSYNC;

impl Client {
    /// Makes everything durable that this session did; says whether it still stands.
    #[inline]
    pub fn sync(&self) -> Result<(), Error> {
        self.check_alive()?;
        if self.session.closed() {
            self.ask_whether_it_stands()?;
        }
        if self.session.welcome.medium != Medium::Block {
            return Ok(());
        }
        self.sync_log()?;
        self.sync_observed()
    }

    /// Whether its daemon has not given the session up, as far as is known here.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.check_alive().is_ok() && !self.session.closed()
    }

    /// Whether all that was done is durable without being waited for, and the session stands.
    #[inline]
    pub fn has_nothing_to_sync(&self) -> bool {
        self.session.welcome.medium == Medium::Memory && self.check_alive().is_ok() && !self.session.closed()
    }

    #[cold]
    fn sync_log(&self) -> Result<(), Error> {
        self.session.find_marks();
        self.make_senders_durable()?;
        // A disk that does not take the log may yet take what is digested from it.
        let commit = |window: &Window, pieces: &[Piece]| {
            self.commit_file.write(&self.session, &self.kept_descriptors, window, pieces)
        };
        let written = self.session.appender.sync(self.session.digested(), commit);
        written.or_else(|_| self.with_daemon(|| self.digest_own_log()))
    }

    /// Makes durable what everybody did who has returned: the logs of others are pages of the same file system's.
    pub fn sync_everything(&self) -> Result<(), Error> {
        self.sync()?;
        if self.session.welcome.medium == Medium::Memory {
            return Ok(());
        }
        let written = rustix::fs::syncfs(&*self.session.references.read());
        written.map_err(|errno| Error::Daemon(format!("the store cannot be written to its disk: {errno}")))
    }

    /// Makes durable what was done to the file, by whomever, and everything that this session did.
    #[inline]
    pub fn fsync(&self, file: &OpenFile) -> Result<(), Error> {
        file.check_not_path()?;
        let medium = self.session.welcome.medium;
        if medium == Medium::Block {
            // What SharedFS performed for this process depends on it: it need not write this log, too.
            self.sync_log()?;
        }
        if medium != Medium::Memory {
            let observed = self.observed_version();
            match self.ship_change(file, ShippedChange::Sync) {
                Some(shipped) => {
                    shipped?;
                    self.note_observed_durable(observed);
                }
                None => self.settle_content(file)?,
            }
        }
        self.sync()
    }

    /// Of what others did, and of what was stored through mappings.
    fn settle_content(&self, file: &OpenFile) -> Result<(), Error> {
        match self.mapped(file.inode_ref())? {
            Some(mapped) => self.sync_mapped(&mapped),
            None => Ok(()),
        }
    }

    /// Behind a change of a file that was opened such that each is durable when it returns.
    #[inline]
    pub(crate) fn sync_if_asked(&self, file: &OpenFile) -> Result<(), Error> {
        if file.flags() & O_DSYNC != 0 { self.sync() } else { Ok(()) }
    }

    /// The daemon has left, and another one is to take the session up; or it gave the session up.
    #[cold]
    fn ask_whether_it_stands(&self) -> Result<(), Error> {
        self.with_daemon(|| self.resync())
    }
}
