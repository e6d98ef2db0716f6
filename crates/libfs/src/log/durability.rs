//! `fsync` and its like: waiting until the disk has what was done.
//!
//! On `pmem` and `memory` every call is durable when it returns, so nothing waits. On `block`, an fsync
//! writes all of the session's log up to now, so that a prefix survives. It also waits for the part of the
//! log of SharedFS's own session that this session has seen the effect of
//! ([`crate::sharing::log_dependencies`]). Other sessions, or SharedFS, make their changes to the file
//! durable: SharedFS digests them before this session may read the file. So an fsync first makes sure that it
//! may read the file.

use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use crate::open_files::open_file::OpenFile;
use crate::sharing::shipped::ShippedChange;
use crate::sync::Ordering;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{InodeNumber, Medium};
use cuesta_media::emulate::settle;
use cuesta_media::planted::{self, Bug};
use cuesta_media::{Piece, Window};
use libc::O_DSYNC;

impl Client {
    /// Makes everything durable that this session did. Fails if SharedFS has given the session up.
    #[inline]
    pub fn sync(&self) -> Result<(), Error> {
        self.check_alive()?;
        if self.session.closed() {
            self.resync_if_detached()?;
        }
        if self.session.welcome.medium != Medium::Block {
            return Ok(());
        }
        self.windows.write_back.await_writes();
        self.lower_windows.write_back.await_writes();
        if self.session.is_optimistic() {
            return self.sync_later();
        }
        // Recovery takes nothing of an epoch that is not on the disk as a whole. The store may begin to go by epochs
        // while this session writes its log.
        if !self.session.goes_by_epochs() {
            self.sync_log()?;
        }
        if self.session.goes_by_epochs() {
            return self.with_daemon(|| self.ask_dsync());
        }
        self.sync_observed()
    }

    /// In optimistic mode: SharedFS writes the log within the bound, if it lives and the disk takes logs.
    fn sync_later(&self) -> Result<(), Error> {
        let session = &self.session;
        let is_served = session.goes_by_epochs() && !session.has_unwritable_log();
        if is_served && session.is_overdue() {
            return self.with_daemon(|| self.await_oldest_epoch());
        }
        if is_served && !(session.is_daemon_in_doubt() && session.requests.is_hung_up()) {
            return Ok(());
        }
        self.with_daemon(|| self.ask_dsync())
    }

    /// Waits until the disk has everything that had returned in the store before the call, by any session. On
    /// `pmem` and `memory` there is nothing to wait for.
    pub fn dsync(&self) -> Result<(), Error> {
        self.check_alive()?;
        match self.session.welcome.medium {
            Medium::Block => self.with_daemon(|| self.ask_dsync()),
            Medium::Pmem | Medium::Memory => Ok(()),
        }
    }

    pub(crate) fn ask_dsync(&self) -> Result<(), Error> {
        match self.session.ask(&Request::Dsync)? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Whether SharedFS has not given the session up, as far as the session knows.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.check_alive().is_ok() && !self.session.closed()
    }

    /// Whether everything is durable without a wait, the session is attached, and it need not know of an fsync.
    #[inline]
    pub fn has_nothing_to_sync(&self) -> bool {
        self.session.welcome.medium == Medium::Memory
            && !self.steers
            && self.check_alive().is_ok()
            && !self.session.closed()
    }

    #[cold]
    fn sync_log(&self) -> Result<(), Error> {
        self.session.find_marks();
        // A disk that refuses the log may still take what SharedFS digests from it.
        let commit = |window: &Window, pieces: &[Piece]| {
            self.commit_file.write(&self.session, &self.kept_descriptors, window, pieces)
        };
        let is_forgotten = planted::active(Bug::StagedBelowUnsynced);
        let staged =
            || self.windows.flush(&self.session) && (is_forgotten || self.lower_windows.flush(&self.session));
        let depended_on = || staged() && self.make_senders_durable().is_ok();
        let written = self.session.appender.sync(self.session.digested(), depended_on, commit);
        if self.session.arenas.plays_disks {
            settle();
        }
        written.or_else(|_| self.with_daemon(|| self.digest_own_log()))
    }

    /// Makes durable what every session has done by now: the logs of other sessions are pages of the same
    /// file system. Blocks that they staged in a lower tier are not.
    pub fn sync_everything(&self) -> Result<(), Error> {
        self.sync()?;
        let is_done = self.session.welcome.medium == Medium::Memory || self.session.is_optimistic();
        if is_done || self.session.goes_by_epochs() {
            return Ok(());
        }
        if self.steers {
            // SharedFS has the disk of each tier take the blocks that sessions staged there.
            self.dsync()?;
        }
        let written = rustix::fs::syncfs(&*self.session.references.read());
        written.map_err(|errno| Error::Daemon(format!("the store cannot be written to its disk: {errno}")))
    }

    /// Makes durable what any session did to the file, and everything that this session did.
    #[inline]
    pub fn fsync(&self, file: &OpenFile) -> Result<(), Error> {
        file.check_not_path()?;
        self.sync_file(file)?;
        self.check_content(file)
    }

    /// An error, once, if a disk lost content that this session staged for the file.
    #[inline]
    fn check_content(&self, file: &OpenFile) -> Result<(), Error> {
        if self.session.has_lost_content() { self.take_loss(file.inode()) } else { Ok(()) }
    }

    #[cold]
    fn take_loss(&self, inode: InodeNumber) -> Result<(), Error> {
        match self.with_daemon(|| self.session.ask(&Request::TakeLoss { inode }))? {
            Response::Lost(false) => Ok(()),
            Response::Lost(true) => {
                // Reads go where the digest placed the content, which has checksums there.
                self.digest()?;
                Err(Error::Content(inode))
            }
            other => Err(unexpected(&other)),
        }
    }

    #[inline]
    fn sync_file(&self, file: &OpenFile) -> Result<(), Error> {
        if self.steers {
            file.inode_ref().synced.store(true, Ordering::Relaxed);
        }
        file.write_stream.end();
        let medium = self.session.welcome.medium;
        if medium == Medium::Block && self.session.goes_by_epochs() {
            // SharedFS writes what other sessions did together with the log of this one. Only stores through
            // mappings are in no log.
            if !self.is_sent(file) {
                self.settle_content(file)?;
            }
            return self.sync();
        }
        if medium == Medium::Block {
            // Operations that SharedFS performed for this process depend on this log. Written now, SharedFS
            // need not write it.
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

    /// Makes durable what other sessions did, and what programs stored through mappings.
    fn settle_content(&self, file: &OpenFile) -> Result<(), Error> {
        match self.mapped(file.inode_ref())? {
            Some(mapped) => self.sync_mapped(&mapped),
            None => Ok(()),
        }
    }

    /// Syncs after a change of a file that was opened with `O_DSYNC`.
    #[inline]
    pub(crate) fn sync_if_asked(&self, file: &OpenFile) -> Result<(), Error> {
        if file.flags() & O_DSYNC == 0 {
            return Ok(());
        }
        file.write_stream.end();
        self.sync()?;
        self.check_content(file)
    }

    /// The daemon has gone and another one is to take the session up, or it gave the session up.
    #[cold]
    fn resync_if_detached(&self) -> Result<(), Error> {
        self.with_daemon(|| self.resync())
    }
}
