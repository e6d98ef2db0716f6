//! Taking record locks and whole-file locks, and waiting for them.
//!
//! All locks are decided in the process: its leases see to it that no other session uses the inode meanwhile.

use crate::client::Client;
use crate::errno::Error;
use crate::inode::Inode;
use crate::locks::{HeldLock, LockKind, LockOwner, LockTable, PROCESS};
use crate::open_file::OpenFile;
use crate::sync::{AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::thread::futex;
use std::ops::Range;

impl Client {
    /// `fcntl` locks: `F_SETLK`, `F_SETLKW` with `wait`, and their `F_OFD_` forms by `owner`. `range` ends at
    /// `u64::MAX` for "to the end".
    pub fn lock_record(
        &self,
        file: &OpenFile,
        owner: LockOwner,
        kind: LockKind,
        range: Range<u64>,
        wait: bool,
    ) -> Result<(), Error> {
        self.check_alive()?;
        match kind {
            LockKind::Read => file.check_readable()?,
            LockKind::Write => file.check_writable()?,
            LockKind::Unlock => file.check_not_path()?,
        }
        if range.is_empty() {
            return Err(Error::Invalid);
        }
        let inode = file.inode_ref();
        let number = number_of(owner, file);
        let take = |table: &mut LockTable| {
            if table.conflict(number, kind, &range).is_some() {
                return None;
            }
            Some(table.set(number, kind, range.clone()))
        };
        take_or_wait(inode, take, wait)
    }

    /// `F_GETLK`: a lock that keeps this one from being granted.
    pub fn get_lock(
        &self,
        file: &OpenFile,
        owner: LockOwner,
        kind: LockKind,
        range: Range<u64>,
    ) -> Result<Option<HeldLock>, Error> {
        file.check_not_path()?;
        if range.is_empty() || kind == LockKind::Unlock {
            return Err(Error::Invalid);
        }
        Ok(file.inode_ref().locks().lock().conflict(number_of(owner, file), kind, &range))
    }

    /// `flock`.
    pub fn flock(&self, file: &OpenFile, kind: LockKind, wait: bool) -> Result<(), Error> {
        self.check_alive()?;
        file.check_not_path()?;
        let number = file.owner_number();
        let inode = file.inode_ref();
        // As Linux: a change of kind first gives up what is held, and may lose it.
        if kind != LockKind::Unlock && inode.locks().lock().drop_whole_of_other_kind(number, kind) {
            wake(&inode.unlocked);
        }
        let take = |table: &mut LockTable| {
            if kind != LockKind::Unlock && table.whole_conflicts(number, kind) {
                return None;
            }
            Some(table.set_whole(number, kind))
        };
        take_or_wait(inode, take, wait)
    }

    /// Counts how often a lock on the file was given up, and is woken as a private futex: for those who wait by
    /// themselves, holding nothing of ours, so that whatever a signal handler does meanwhile is right.
    #[must_use]
    pub fn unlocks<'f>(&self, file: &'f OpenFile) -> &'f AtomicU32 {
        &file.inode_ref().unlocked
    }

    /// The process closed a descriptor of the file: its record locks on the inode go (POSIX).
    pub fn close_descriptor(&self, file: &OpenFile) {
        self.drop_locks(file.inode_ref(), PROCESS);
    }

    pub(crate) fn drop_locks(&self, inode: &Inode, owner: u64) {
        if inode.locks_made().is_some_and(|locks| locks.lock().drop_owner(owner)) {
            wake(&inode.unlocked);
        }
    }
}

fn number_of(owner: LockOwner, file: &OpenFile) -> u64 {
    match owner {
        LockOwner::Process => PROCESS,
        LockOwner::File => file.owner_number(),
    }
}

/// Takes a lock; `take` says whether it could, and whether somebody may now have what was given up.
fn take_or_wait(
    inode: &Inode,
    take: impl Fn(&mut LockTable) -> Option<bool>,
    is_patient: bool,
) -> Result<(), Error> {
    loop {
        let seen = inode.unlocked.load(Ordering::Acquire);
        if let Some(gave_up) = take(&mut inode.locks().lock()) {
            if gave_up {
                wake(&inode.unlocked);
            }
            return Ok(());
        }
        if !is_patient {
            return Err(Error::WouldBlock);
        }
        if futex::wait(&inode.unlocked, futex::Flags::PRIVATE, seen, None) == Err(Errno::INTR) {
            return Err(Error::Interrupted);
        }
    }
}

fn wake(word: &AtomicU32) {
    word.fetch_add(1, Ordering::AcqRel);
    // Only an address that is no mapped word could fail here.
    let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
}
