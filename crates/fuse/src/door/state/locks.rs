//! The locks of this mount: which description each is on, and the threads that wait for one.
//!
//! Requests for locks come in by `requests/locks.rs`. The graph of waiting owners is in `records.rs`.

use super::kinds::{Kind, kind_of_wait};
use super::lock_file::{END_OF_ALL, LockFile, Wanted};
use super::range::Range;
use super::records::{Owner, OwnerLocks, Records};
use super::shares::Shares;
use crate::door::refusal::Refusal;
use crate::kernel::abi::{InHeader, LockIn};
use cuesta_format::InodeNumber;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::sync::{Arc, Once};
use std::time::Duration;

/// What ends a wait.
const WAKE: i32 = libc::SIGUSR1;
/// A thread that is about to wait is woken once more after this.
const WAKE_AGAIN: Duration = Duration::from_millis(1);
/// Requests to end a wait that has not begun; any more were about other waits.
const EARLY_MAX: usize = 1024;

/// What locks of this mount are on.
#[derive(Default)]
pub(in crate::door) struct Locks {
    pub(in crate::door) of_files: Mutex<HashMap<u64, Arc<LockFile>>>,
    pub(in crate::door) records: Arc<Mutex<Records>>,
    pub(in crate::door) waits: Arc<Mutex<Waits>>,
    pub(in crate::door) shares: Shares,
}

/// Requests that wait, by their numbers, and their threads.
#[derive(Default)]
pub(in crate::door) struct Waits {
    threads: HashMap<u64, libc::pid_t>,
    ended_early: HashSet<u64>,
    is_over: bool,
}

impl Locks {
    /// A descriptor of the inode's is closed: its owner's record locks go.
    pub(in crate::door) fn let_go_of_records(&self, inode: InodeNumber, owner: u64) {
        self.records.lock().let_go(Owner { inode, owner }, unlock_all);
    }

    /// An open file is closed: its locks go.
    pub(in crate::door) fn let_go_of_file(&self, handle: u64) {
        drop(self.of_files.lock().remove(&handle));
        let mut records = self.records.lock();
        let with_it = records.owners.iter().filter(|(_, held)| held.handle == handle);
        let owners: Vec<Owner> = with_it.map(|(owner, _)| *owner).collect();
        owners.into_iter().for_each(|owner| records.let_go(owner, unlock_all));
    }

    /// Everything goes, and the waiting threads are told.
    pub(in crate::door) fn end(&self) {
        let mut waits = self.waits.lock();
        waits.is_over = true;
        let requests: Vec<u64> = waits.threads.keys().copied().collect();
        drop(waits);
        requests.into_iter().for_each(|request| end_wait(&self.waits, request));
        self.of_files.lock().clear();
        self.records.lock().owners.clear();
    }
}

/// The kernel forgets all record locks on the description: others may have it, so that it does not go with them.
fn unlock_all(file: &LockFile) {
    let all = LockIn { end: END_OF_ALL, kind: libc::F_UNLCK as u32, ..LockIn::default() };
    let _ = Wanted::of(&all).set(file, false);
}

/// A lock that a request asks for, and everything it takes to set it.
pub(in crate::door) struct Asking {
    wanted: Wanted,
    asked: LockIn,
    inode: InodeNumber,
    file: Arc<LockFile>,
    /// The request's number,
    unique: u64,
    /// and the thread that made it.
    thread: u32,
    records: Arc<Mutex<Records>>,
    waits: Arc<Mutex<Waits>>,
}

impl Locks {
    /// What record locks of the owner are on, taken anew if it has none, with one user more.
    pub(in crate::door) fn use_records(
        &self,
        owner: Owner,
        asked: &LockIn,
        take: impl FnOnce() -> Result<Arc<LockFile>, Refusal>,
    ) -> Result<Option<Arc<LockFile>>, Refusal> {
        let mut records = self.records.lock();
        if let Some(held) = records.owners.get_mut(&owner) {
            held.users += 1;
            return Ok(Some(Arc::clone(&held.file)));
        }
        if asked.kind as i32 == libc::F_UNLCK {
            return Ok(None);
        }
        let file = take()?;
        let (pid, handle) = (asked.pid, asked.handle);
        let held = OwnerLocks {
            file: Arc::clone(&file),
            pid,
            handle,
            ranges: Vec::new(),
            users: 1,
            is_closed: false,
        };
        records.owners.insert(owner, held);
        Ok(Some(file))
    }

    pub(in crate::door) fn asking(
        &self,
        (header, inode): (&InHeader, InodeNumber),
        asked: &LockIn,
        file: &Arc<LockFile>,
    ) -> Asking {
        Asking {
            wanted: Wanted::of(asked),
            asked: *asked,
            inode,
            file: Arc::clone(file),
            unique: header.unique,
            thread: header.pid,
            records: Arc::clone(&self.records),
            waits: Arc::clone(&self.waits),
        }
    }
}

impl Asking {
    fn owner(&self) -> Owner {
        Owner { inode: self.inode, owner: self.asked.owner }
    }

    /// Its wait is to end before it begins.
    fn is_ended(&self) -> bool {
        let waits = self.waits.lock();
        waits.is_over || waits.ended_early.contains(&self.unique)
    }

    /// Sets it if no other lock is in the way.
    pub(in crate::door) fn set(&self) -> Result<(), Errno> {
        let Some(range) = self.wanted.range() else { return self.wanted.set(&self.file, false) };
        let mut records = self.records.lock();
        self.wanted.set(&self.file, false)?;
        let refused = self.note(&mut records, range);
        drop(records);
        refused.into_iter().for_each(|request| end_wait(&self.waits, request));
        Ok(())
    }

    /// Waits for it.
    pub(in crate::door) fn wait(&self) -> Result<(), Errno> {
        let range = self.wanted.range().map(|range| (range, kind_of_wait(self.thread, || self.is_ended())));
        {
            let mut waits = self.waits.lock();
            if waits.ended_early.remove(&self.unique) || waits.is_over {
                return Err(Errno::INTR);
            }
            // SAFETY: asks for a number.
            waits.threads.insert(self.unique, unsafe { libc::gettid() });
        }
        let done = match range {
            None => self.wanted.set(&self.file, true),
            Some((range, kind)) => self.wait_in_turn(range, kind),
        };
        self.waits.lock().threads.remove(&self.unique);
        done
    }

    fn wait_in_turn(&self, range: Range, kind: Kind) -> Result<(), Errno> {
        loop {
            if !self.records.lock().begin_wait(self.unique, self.owner(), range, kind) {
                return Err(Errno::DEADLK);
            }
            let done = self.wanted.set(&self.file, true);
            let mut records = self.records.lock();
            let is_refused = records.end_wait(self.unique);
            match done {
                // Another thread of the owner's may have given it up, or closed the file, since it was granted.
                Ok(()) => match self.wanted.set(&self.file, false) {
                    Err(Errno::AGAIN | Errno::ACCESS) if is_refused => return Err(Errno::DEADLK),
                    Err(Errno::AGAIN | Errno::ACCESS) => {}
                    again => {
                        again?;
                        let refused = self.note(&mut records, range);
                        drop(records);
                        refused.into_iter().for_each(|request| end_wait(&self.waits, request));
                        return Ok(());
                    }
                },
                Err(Errno::INTR) if is_refused => return Err(Errno::DEADLK),
                done => return done,
            }
        }
    }

    /// It is set, or given up. Answers the requests that are not to wait any longer. A record lock that was granted stays until
    /// its owner closes the file again: a close while this one waited took only the locks there were.
    fn note(&self, records: &mut Records, range: Range) -> Vec<u64> {
        if self.asked.kind as i32 == libc::F_UNLCK {
            records.give_up(self.owner(), range);
            return Vec::new();
        }
        if let Some(held) = records.owners.get_mut(&self.owner()) {
            (held.pid, held.handle) = (self.asked.pid, self.asked.handle);
        }
        records.grant(self.owner(), range);
        records.refuse_circles(self.owner())
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.wanted.range().is_some() {
            self.records.lock().end_use(self.owner(), &self.file);
        }
    }
}

/// Ends a wait. The signal does nothing to a thread that does not wait yet, so it is sent until the wait is over.
pub(in crate::door) fn end_wait(waits: &Mutex<Waits>, unique: u64) {
    loop {
        {
            let mut waits = waits.lock();
            let Some(&thread) = waits.threads.get(&unique) else {
                if waits.ended_early.len() >= EARLY_MAX {
                    waits.ended_early.clear();
                }
                if !waits.is_over {
                    waits.ended_early.insert(unique);
                }
                return;
            };
            // SAFETY: the thread is in the table, so it is one of this process that has not ended, and the signal has a
            // handler.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, WAKE) };
        }
        std::thread::sleep(WAKE_AGAIN);
    }
}

/// Has the signal interrupt system calls, and do nothing else.
pub(in crate::door) fn hear_wakes() {
    static HEARD: Once = Once::new();
    extern "C" fn nothing(_: libc::c_int) {}
    HEARD.call_once(|| {
        // SAFETY: the action is zero but for a handler that does nothing, which is all that signal is used for here.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            libc::sigaction(WAKE, &raw const action, std::ptr::null_mut());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::abi::LOCK_FLOCK;
    use cuesta_format::control::USER_LOCK_LAST;
    use rustix::fd::OwnedFd;

    #[test]
    fn ranges_end_where_programs_locks_end() {
        let asked = LockIn { start: 5, end: END_OF_ALL, kind: libc::F_WRLCK as u32, ..LockIn::default() };
        let Wanted::Range(range) = Wanted::of(&asked) else { panic!("it is of a range") };
        assert_eq!((range.l_start, (range.l_start + range.l_len - 1) as u64), (5, USER_LOCK_LAST));
        let whole = LockIn { flags: LOCK_FLOCK, ..asked };
        assert!(matches!(Wanted::of(&whole), Wanted::Whole { operation: libc::LOCK_EX }));
    }

    const OWNER: Owner = Owner { inode: InodeNumber(1), owner: 1 };

    fn description(path: &std::path::Path) -> Arc<LockFile> {
        let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        Arc::new(OwnedFd::from(file).into())
    }

    /// A thread's of the owner that locks one byte.
    fn asking(locks: &Locks, path: &std::path::Path, unique: u64, byte: u64) -> Asking {
        let asked =
            LockIn { owner: 1, start: byte, end: byte, kind: libc::F_WRLCK as u32, ..LockIn::default() };
        let file = locks.use_records(OWNER, &asked, || Ok(description(path))).ok().flatten().unwrap();
        Asking {
            wanted: Wanted::of(&asked),
            asked,
            inode: OWNER.inode,
            file,
            unique,
            thread: 0,
            records: Arc::clone(&locks.records),
            waits: Arc::clone(&locks.waits),
        }
    }

    /// Another thread of the owner closes the file and locks another byte meanwhile.
    #[test]
    fn a_waiter_has_the_lock_though_its_process_closed_the_file() {
        let (locks, file) = (Locks::default(), tempfile::NamedTempFile::new().unwrap());
        let other = description(file.path());
        let byte = |byte, kind: i32| {
            let asked = LockIn { start: byte, end: byte, kind: kind as u32, ..LockIn::default() };
            Wanted::of(&asked).set(&other, false)
        };
        byte(0, libc::F_WRLCK).unwrap();
        let first = asking(&locks, file.path(), 1, 0);
        assert_eq!(first.set(), Err(Errno::AGAIN));
        let before = asking(&locks, file.path(), 2, 7);
        before.set().unwrap();
        drop(before);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || first.wait());
            locks.let_go_of_records(OWNER.inode, OWNER.owner);
            byte(7, libc::F_WRLCK).unwrap();
            let second = asking(&locks, file.path(), 3, 5);
            second.set().unwrap();
            drop(second);
            byte(0, libc::F_UNLCK).unwrap();
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(byte(0, libc::F_WRLCK), Err(Errno::AGAIN));
        assert_eq!(byte(5, libc::F_WRLCK), Err(Errno::AGAIN));
        locks.let_go_of_records(OWNER.inode, OWNER.owner);
        byte(0, libc::F_WRLCK).unwrap();
        assert!(locks.records.lock().owners.is_empty());
    }
}
