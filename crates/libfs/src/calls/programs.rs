//! Programs: a file that runs is not opened for writing, and a file that is open for writing is not executed (`ETXTBSY`).
//!
//! SharedFS knows whether any process has a file open for writing. To spare a question at each start of a program, LibFS opens a program for
//! writing only under a write lease. A session that was once told that no process writes a program, and still has the lease on it, knows that
//! no other session has opened it for writing since. The session's own opens are in its slots. Opens that other processes inherited (fork,
//! exec) are marks in the inode's lock file.

use crate::cache::inode::{Inode, State};
use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use crate::open_files::open_file::OpenFile;
use crate::sync::RwLockReadGuard;
use cuesta_format::wire::{LeaseMode, Request, Response};
use cuesta_format::{FileKind, InodeNumber, InodeRecord};
use cuesta_media::lock_files;

/// Whether it might be executed.
fn is_program(record: &InodeRecord) -> bool {
    record.kind() == FileKind::File && record.mode & 0o111 != 0
}

impl Client {
    /// From now on `is_running` is asked before a program is opened to be written or truncated: one that runs is not
    /// (`ETXTBSY`). It is called with the inode locked, and must not call the client's operations.
    pub fn watch_programs(&self, is_running: fn(InodeNumber) -> bool) {
        // Whoever came first stays: there is one door.
        let _ = self.programs.is_running.set(is_running);
    }

    /// A file that is to be written must not run.
    pub fn check_not_running(&self, record: &InodeRecord) -> Result<(), Error> {
        match self.programs.is_running.get() {
            Some(is_running) if is_program(record) && is_running(record.inode) => Err(Error::Running),
            _ => Ok(()),
        }
    }

    /// The inode's state, to open it for writing: a program's under the lease that takes it from those who believe that
    /// nobody does. Within an attempt.
    pub(crate) fn opening_to_write<'i>(&self, inode: &'i Inode) -> Result<RwLockReadGuard<'i, State>, Error> {
        loop {
            let state = self.reading(inode)?;
            if !is_program(&state.record) || state.lease == Some(LeaseMode::Write) {
                return Ok(state);
            }
            drop(state);
            self.acquire(inode, LeaseMode::Write)?;
        }
    }

    /// A file that somebody has open for writing is not executed (`ETXTBSY`).
    pub fn check_not_written(&self, file: &OpenFile) -> Result<(), Error> {
        let version = self.version(file)?;
        let is_remembered = self.programs.unwritten.lock().contains(&version);
        if is_remembered && !self.may_write_itself(file.inode()) {
            return Ok(());
        }
        match self.with_daemon(|| self.session.ask(&Request::IsWritten { inode: file.inode() }))? {
            Response::Written(false) => {
                if is_program(&self.stat_open(file)?.record) && self.version(file)? == version {
                    self.programs.remember(version);
                }
                Ok(())
            }
            Response::Written(true) => Err(Error::Running),
            other => Err(unexpected(&other)),
        }
    }

    /// Whether this session might have it open for writing, or a process that has a descriptor of such an open file: if it
    /// has a lock file, SharedFS is asked. Slots are looked at before descriptors, as they are given up after them.
    fn may_write_itself(&self, inode: InodeNumber) -> bool {
        self.session.open_slots.have_writer(inode) || lock_files::exists(&*self.references(), inode)
    }

    /// Runs `execute`, which does not come back if it succeeds: then the session ends with everything it has open, at
    /// once, however late SharedFS learns of it. What descriptors keep open is seen by those.
    pub fn while_executing<T>(&self, execute: impl FnOnce() -> T) -> T {
        self.tell_accesses();
        let writers = self.session.open_slots.hide_writers();
        let answer = execute();
        self.session.open_slots.show_writers(&writers);
        answer
    }
}
