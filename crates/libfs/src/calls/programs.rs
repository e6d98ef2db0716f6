//! Programs: a file that runs is not opened for writing, and a file that is open for writing is not executed
//! (`ETXTBSY`).
//!
//! SharedFS knows whether any process has a file open for writing. To spare a question at each start of a
//! program, LibFS opens a program for writing only under a write lease. A session may once have learned that
//! no process writes a program. As long as it keeps its lease, no other session has opened the program for
//! writing. The session's own opens are in its slots. Opens that other processes inherited (fork, exec) are
//! marks in the inode's lock file.

use crate::cache::inode::{Inode, State};
use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use crate::open_files::open_file::OpenFile;
use crate::sync::RwLockReadGuard;
use cuesta_format::wire::{LeaseMode, Request, Response};
use cuesta_format::{FileKind, InodeNumber, InodeRecord};
use cuesta_media::lock_files;

/// Whether the file might be executed.
fn is_program(record: &InodeRecord) -> bool {
    record.kind() == FileKind::File && record.mode & 0o111 != 0
}

impl Client {
    /// Sets the function that says whether a program runs. The client calls it before it opens a program for
    /// writing or truncates one, and refuses if it runs (`ETXTBSY`). It is called with the inode locked, and
    /// must not call the client.
    pub fn watch_programs(&self, is_running: fn(InodeNumber) -> bool) {
        // The first setting stays: a process has one door.
        let _ = self.programs.is_running.set(is_running);
    }

    /// Fails if the file is a program that runs.
    pub fn check_not_running(&self, record: &InodeRecord) -> Result<(), Error> {
        match self.programs.is_running.get() {
            Some(is_running) if is_program(record) && is_running(record.inode) => Err(Error::Running),
            _ => Ok(()),
        }
    }

    /// The inode's state, for opening it to write. For a program it needs the write lease, which takes the
    /// lease from sessions that rely on no process writing it. Call within an attempt.
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

    /// Fails if any process has the file open for writing (`ETXTBSY`).
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

    /// Whether this session may have the inode open for writing, or another process may have a descriptor of
    /// such an open file. The slots are checked before the lock file, because a session gives slots up after
    /// descriptors.
    fn may_write_itself(&self, inode: InodeNumber) -> bool {
        self.session.open_slots.have_writer(inode) || lock_files::exists(&*self.references(), inode)
    }

    /// Runs `execute`, which does not return if it succeeds. Then the session ends at once with everything
    /// that it has open, however late SharedFS learns of it. Opens that descriptors keep are seen by their
    /// marks.
    pub fn while_executing<T>(&self, execute: impl FnOnce() -> T) -> T {
        self.tell_accesses();
        let writers = self.session.open_slots.hide_writers();
        let answer = execute();
        self.session.open_slots.show_writers(&writers);
        answer
    }
}
