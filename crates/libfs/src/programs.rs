//! Programs: a file that is executed is not written, and the other way round (`ETXTBSY`).
//!
//! Whether a file is open for writing anywhere is SharedFS's to say. So that it is not asked at each start of a program,
//! one is opened for writing only under a lease for writing: whoever was told that nobody writes a program, and has not
//! lost the lease on it since, knows that nobody but this session has opened it. This session's own opens are in its
//! slots; what became of them in other processes (fork, exec) are marks in the inode's lock file.

use crate::attributes::Version;
use crate::client::Client;
use crate::errno::Error;
use crate::inode::{Inode, State};
use crate::open_file::OpenFile;
use crate::session::unexpected;
use crate::sync::{Mutex, RwLockReadGuard};
use cuesta_format::wire::{LeaseMode, Request, Response};
use cuesta_format::{FileKind, InodeNumber, InodeRecord};
use cuesta_media::lock_files;
use std::sync::OnceLock;

/// Programs remembered as not written: more are seldom started in turns.
const UNWRITTEN_MAX: usize = 16;

/// What is known of programs.
#[derive(Default)]
pub(crate) struct Programs {
    is_running: OnceLock<fn(InodeNumber) -> bool>,
    /// Programs as they were when SharedFS said that nobody writes them, the last one last.
    unwritten: Mutex<Vec<Version>>,
}

impl Programs {
    fn remember(&self, version: Version) {
        let mut unwritten = self.unwritten.lock();
        unwritten.retain(|other| other.inode() != version.inode());
        if unwritten.len() >= UNWRITTEN_MAX {
            unwritten.remove(0);
        }
        unwritten.push(version);
    }
}

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
        match self.asking(|| self.session.ask(&Request::IsWritten { inode: file.inode() }))? {
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
