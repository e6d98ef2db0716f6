//! The server of this process's calls.

use crate::store::OpenFile;
use crate::store::open_files::stranger;
use cuesta_format::{InodeNumber, InodeRecord, StoreId};
use cuesta_libfs::{Error, Keeper, PassedFile};
use rustix::fd::BorrowedFd;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

/// Where a pipe, a socket or a mark would stand that is out of a served process's reach.
const OUT_OF_REACH: &[u8] = b"/proc/self/fdinfo/-";

/// The server of this process's calls.
#[expect(clippy::large_enum_variant, reason = "a process has two at most, and leaks each on the heap")]
pub enum Client {
    /// The process's own session.
    Own(Arc<cuesta_libfs::Client>),
    /// SharedFS.
    Served(cuesta_served::Client),
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.is_served() { "Client::Served" } else { "Client::Own" })
    }
}

impl Client {
    /// Whether SharedFS serves this process.
    pub fn is_served(&self) -> bool {
        matches!(self, Client::Served(_))
    }

    /// The store.
    pub fn store(&self) -> StoreId {
        match self {
            Client::Own(client) => client.store(),
            Client::Served(client) => client.store(),
        }
    }

    /// Where the kernel has what stands in for a named pipe or a socket.
    pub fn stand_in(&self, inode: InodeNumber) -> Vec<u8> {
        match self {
            Client::Own(client) => client.stand_in(inode),
            Client::Served(_) => OUT_OF_REACH.to_vec(),
        }
    }

    /// The descriptors it keeps open, by their numbers.
    pub fn descriptors(&self) -> Vec<i32> {
        match self {
            Client::Own(client) => client.descriptors().collect(),
            Client::Served(client) => vec![client.descriptor()],
        }
    }

    /// The session is a parent's.
    pub fn after_fork_in_child(&self) {
        if let Client::Own(client) = self {
            client.after_fork_in_child();
        }
    }

    /// Another process is about to be made, which may look at what this one read.
    pub fn tell_accesses(&self) {
        if let Client::Own(client) = self {
            client.tell_accesses();
        }
    }

    /// The process ends.
    pub fn part(&self) {
        if let Client::Own(client) = self {
            client.part();
        }
    }

    /// From now on no file grows beyond `bytes`.
    pub fn limit_files(&self, bytes: u64) {
        match self {
            Client::Own(client) => client.limit_files(bytes),
            Client::Served(client) => client.limit_files(bytes),
        }
    }

    /// As LibFS; a served process does not know which programs others run.
    pub fn watch_programs(&self, is_running: fn(InodeNumber) -> bool) {
        if let Client::Own(client) = self {
            client.watch_programs(is_running);
        }
    }

    /// As LibFS; of what a served process's session gives up, its daemon tells.
    pub fn tell_of_giving_up(&self, tell: fn(&str)) {
        if let Client::Own(client) = self {
            client.tell_of_giving_up(tell);
        }
    }

    /// As LibFS; a served process has none to keep.
    pub fn keep_descriptors(&self, keeper: Keeper) {
        if let Client::Own(client) = self {
            client.keep_descriptors(keeper);
        }
    }

    /// As LibFS.
    pub fn check_not_running(&self, record: &InodeRecord) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.check_not_running(record),
            Client::Served(_) => Ok(()),
        }
    }

    /// As LibFS.
    pub fn check_not_written(&self, file: &OpenFile) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.check_not_written(file.own()?),
            Client::Served(_) => Ok(()),
        }
    }

    /// As LibFS.
    pub fn while_executing<T>(&self, execute: impl FnOnce() -> T) -> T {
        match self {
            Client::Own(client) => client.while_executing(execute),
            Client::Served(_) => execute(),
        }
    }

    /// Counts a call that is not served.
    pub fn count_unserved(&self, system_call: usize) {
        if let Client::Own(client) = self {
            client.count_unserved(system_call);
        }
    }

    /// The folder whose locks keep files, if this process may use it.
    pub fn references<T>(&self, take: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        match self {
            Client::Own(client) => Some(take(client.references().as_fd())),
            Client::Served(_) => None,
        }
    }

    /// As LibFS.
    pub fn number_to_pass(&self) -> Result<u64, Error> {
        match self {
            Client::Own(client) => client.number_to_pass(),
            Client::Served(_) => Err(Error::Unsupported),
        }
    }

    /// As LibFS.
    pub fn pass(&self, number: u64, inode: InodeNumber, description: Vec<u8>) -> Result<PassedFile, Error> {
        match self {
            Client::Own(client) => client.pass(number, inode, description),
            Client::Served(_) => Err(Error::Unsupported),
        }
    }

    /// As LibFS.
    pub fn passed(&self, number: u64) -> Result<PassedFile, Error> {
        match self {
            Client::Own(client) => client.passed(number),
            Client::Served(_) => Err(Error::Unsupported),
        }
    }

    /// `sync`.
    pub fn sync(&self) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.sync(),
            Client::Served(_) => Ok(()),
        }
    }

    /// As LibFS.
    pub fn note_lock_file(&self) {
        if let Client::Own(client) = self {
            client.note_lock_file();
        }
    }

    /// For a file with SharedFS: the descriptor that the kernel has its locks on, the same for all who have it.
    pub fn lock_file(&self, file: &OpenFile) -> Result<OwnedFd, Error> {
        match self {
            Client::Own(_) => Err(stranger()),
            Client::Served(client) => client.lock_file(file.with_shared_fs()?),
        }
    }
}
