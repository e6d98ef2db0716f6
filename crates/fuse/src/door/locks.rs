//! `flock` and record locks: the kernel's, on the inode's lock file, where the other door's programs have theirs.
//!
//! Whoever has a lock here has an open file description of the lock file for it: of `flock` each open file, of record locks
//! each owner in each inode. So the locks of this mount's programs meet each other and everybody else's. Who of them waits for
//! whom is in [`super::records`].

use super::kinds::{Kind, kind_of_wait};
use super::records::{Held, Owner, Range, Records};
use super::shares::{self, Share, Shares};
use super::{Call, Door, Refusal};
use crate::abi::{InterruptIn, LOCK_FLOCK, LockIn, LockOut};
use cuesta_format::InodeNumber;
use cuesta_format::control::USER_LOCK_LAST;
use cuesta_media::lock_files::{self, Access};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::io::Errno;
use std::sync::{Arc, Once};
use std::thread::Builder;
use std::time::Duration;

/// What ends a wait.
const WAKE: i32 = libc::SIGUSR1;
/// A thread that is about to wait is woken once more after this.
const WAKE_AGAIN: Duration = Duration::from_millis(1);
/// Requests to end a wait that has not begun; what is more was about others.
const EARLY_MAX: usize = 1024;
/// Where what programs can lock ends, for the kernel.
const END_OF_ALL: u64 = i64::MAX as u64;

/// What locks of this mount are on.
#[derive(Default)]
pub(super) struct Locks {
    of_files: Mutex<HashMap<u64, Arc<LockFile>>>,
    records: Arc<Mutex<Records>>,
    waits: Arc<Mutex<Waits>>,
    shares: Shares,
}

/// What a lock is on.
#[derive(Debug)]
pub(super) struct LockFile {
    file: OwnedFd,
    /// What it counts as for the user it was taken for.
    _share: Option<Share>,
}

impl std::ops::Deref for LockFile {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.file
    }
}

impl From<OwnedFd> for LockFile {
    fn from(file: OwnedFd) -> LockFile {
        LockFile { file, _share: None }
    }
}

/// Requests that wait, by their numbers, and their threads.
#[derive(Default)]
struct Waits {
    threads: HashMap<u64, libc::pid_t>,
    ended_early: HashSet<u64>,
    is_over: bool,
}

/// One lock as it is asked for.
enum Wanted {
    Whole { operation: i32 },
    Range(libc::flock),
}

impl Wanted {
    fn of(asked: &LockIn) -> Wanted {
        if asked.flags & LOCK_FLOCK != 0 {
            let operation = match asked.kind as i32 {
                libc::F_RDLCK => libc::LOCK_SH,
                libc::F_WRLCK => libc::LOCK_EX,
                _ => libc::LOCK_UN,
            };
            return Wanted::Whole { operation };
        }
        let [first, last] = [asked.start, asked.end].map(|byte| byte.min(USER_LOCK_LAST) as i64);
        Wanted::Range(libc::flock {
            l_type: asked.kind as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: first,
            l_len: last - first + 1,
            l_pid: 0,
        })
    }

    /// The bytes a record lock is on.
    fn range(&self) -> Option<Range> {
        let Wanted::Range(range) = self else { return None };
        let first = range.l_start as u64;
        let last = first + (range.l_len as u64 - 1);
        Some(Range { first, last, is_exclusive: i32::from(range.l_type) == libc::F_WRLCK })
    }

    fn set(&self, file: &OwnedFd, waits: bool) -> Result<(), Errno> {
        let file = file.as_raw_fd();
        // SAFETY: the descriptor is open while it is borrowed; the kernel reads the one structure, which outlives the call.
        let done = unsafe {
            match self {
                Wanted::Whole { operation } => {
                    libc::flock(file, operation | if waits { 0 } else { libc::LOCK_NB })
                }
                Wanted::Range(range) => {
                    let command = if waits { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
                    libc::fcntl(file, command, std::ptr::from_ref(range))
                }
            }
        };
        if done == 0 { Ok(()) } else { Err(last_error()) }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal(errno.raw_os_error())
    }
}

impl Locks {
    /// A descriptor of the inode's is closed: its owner's record locks go.
    pub(super) fn let_go_of_records(&self, inode: InodeNumber, owner: u64) {
        self.records.lock().let_go(Owner { inode, owner }, unlock_all);
    }

    /// An open file is closed: its locks go.
    pub(super) fn let_go_of_file(&self, handle: u64) {
        drop(self.of_files.lock().remove(&handle));
        let mut records = self.records.lock();
        let with_it = records.owners.iter().filter(|(_, held)| held.handle == handle);
        let owners: Vec<Owner> = with_it.map(|(owner, _)| *owner).collect();
        owners.into_iter().for_each(|owner| records.let_go(owner, unlock_all));
    }

    /// Everything goes, and whoever waits is told.
    pub(super) fn end(&self) {
        let mut waits = self.waits.lock();
        waits.is_over = true;
        let requests: Vec<u64> = waits.threads.keys().copied().collect();
        drop(waits);
        requests.into_iter().for_each(|request| end_wait(&self.waits, request));
        self.of_files.lock().clear();
        self.records.lock().owners.clear();
    }
}

impl Door {
    /// What the lock is to be on; `None`: there is none, and none is to be. Who has it makes an [`Asking`] of it.
    fn lock_file(&self, call: &Call<'_>, asked: &LockIn) -> Result<Option<Arc<LockFile>>, Refusal> {
        let (inode, user) = (call.inode(), call.header.uid);
        let is_given_up = asked.kind as i32 == libc::F_UNLCK;
        if asked.flags & LOCK_FLOCK != 0 {
            let file = self.files.get(asked.handle)?;
            let access = if file.check_writable().is_ok() { Access::Locks } else { Access::Read };
            let mut of_files = self.locks.of_files.lock();
            if let Some(found) = of_files.get(&asked.handle) {
                return Ok(Some(Arc::clone(found)));
            }
            if is_given_up {
                return Ok(None);
            }
            let file = self.take_lock_file(inode, access, user)?;
            of_files.insert(asked.handle, Arc::clone(&file));
            return Ok(Some(file));
        }
        let owner = Owner { inode, owner: asked.owner };
        self.locks.use_records(owner, asked, || self.take_lock_file(inode, Access::Locks, user))
    }

    fn take_lock_file(
        &self,
        inode: InodeNumber,
        access: Access,
        user: u32,
    ) -> Result<Arc<LockFile>, Refusal> {
        let share = self.locks.shares.take(user, shares::Kind::LockFile).ok_or(Refusal(libc::ENOLCK))?;
        self.client.note_lock_file();
        let file =
            lock_files::take(&*self.client.references(), inode, access).map_err(|errno| match errno {
                Errno::MFILE | Errno::NFILE => Refusal(libc::ENOLCK),
                errno => errno.into(),
            })?;
        Ok(Arc::new(LockFile { file, _share: Some(share) }))
    }

    pub(super) fn set_lock(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let asked: LockIn = call.arguments.structure()?;
        if let Some(file) = self.lock_file(call, &asked)? {
            self.locks.asking(call, &asked, &file).set()?;
        }
        Ok(())
    }

    /// Sets it at once, or in a thread of its own, which answers.
    pub(super) fn wait_for_lock(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let asked: LockIn = call.arguments.structure()?;
        let (unique, device) = (call.header.unique, Arc::clone(call.device));
        let Some(file) = self.lock_file(call, &asked)? else {
            device.answer(unique, b"");
            return Ok(());
        };
        let asking = self.locks.asking(call, &asked, &file);
        match asking.set() {
            Err(Errno::AGAIN | Errno::ACCESS) => {}
            done => {
                done?;
                device.answer(unique, b"");
                return Ok(());
            }
        }
        let share =
            self.locks.shares.take(call.header.uid, shares::Kind::Wait).ok_or(Refusal(libc::ENOLCK))?;
        hear_wakes();
        let waiting = move || {
            let _share = share;
            match asking.wait() {
                Ok(()) => device.answer(unique, b""),
                Err(errno) => device.refuse(unique, errno.raw_os_error()),
            }
        };
        let started = Builder::new().name("fuse-lock".into()).spawn(waiting);
        started.map(drop).map_err(|_| Refusal(libc::ENOLCK))
    }

    pub(super) fn interrupt(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let InterruptIn { unique } = call.arguments.structure()?;
        end_wait(&self.locks.waits, unique);
        Ok(())
    }

    pub(super) fn get_lock(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let asked: LockIn = call.arguments.structure()?;
        let inode = call.inode();
        let records = self.locks.records.lock();
        let own = records.owners.get(&Owner { inode, owner: asked.owner }).map(|held| Arc::clone(&held.file));
        drop(records);
        let file = match own {
            Some(file) => file,
            None => self.take_lock_file(inode, Access::Locks, call.header.uid)?,
        };
        let Wanted::Range(mut found) = Wanted::of(&asked) else { return Err(Refusal(libc::EINVAL)) };
        // SAFETY: the descriptor is open; the kernel reads and writes the one structure, which outlives the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut found) } != 0 {
            return Err(last_error().into());
        }
        let last = (found.l_start + found.l_len - 1) as u64;
        let out = match i32::from(found.l_type) {
            libc::F_UNLCK => LockOut { kind: libc::F_UNLCK as u32, ..LockOut::default() },
            kind => LockOut {
                start: found.l_start as u64,
                end: if found.l_len == 0 || last >= USER_LOCK_LAST { END_OF_ALL } else { last },
                kind: kind as u32,
                pid: u32::try_from(found.l_pid).unwrap_or_else(|_| {
                    let asking = Owner { inode, owner: asked.owner };
                    let last = if found.l_len == 0 { USER_LOCK_LAST } else { last };
                    self.locks.records.lock().holder(asking, found.l_start as u64, last, kind)
                }),
            },
        };
        call.answer.put(&out);
        Ok(())
    }
}

/// The kernel forgets all record locks on the description: others may have it, so that it does not go with them.
fn unlock_all(file: &LockFile) {
    let all = LockIn { end: END_OF_ALL, kind: libc::F_UNLCK as u32, ..LockIn::default() };
    let _ = Wanted::of(&all).set(file, false);
}

/// A lock that somebody asks for, and what it takes to set it.
struct Asking {
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
    fn use_records(
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
        let held =
            Held { file: Arc::clone(&file), pid, handle, ranges: Vec::new(), users: 1, is_closed: false };
        records.owners.insert(owner, held);
        Ok(Some(file))
    }

    fn asking(&self, call: &Call<'_>, asked: &LockIn, file: &Arc<LockFile>) -> Asking {
        Asking {
            wanted: Wanted::of(asked),
            asked: *asked,
            inode: call.inode(),
            file: Arc::clone(file),
            unique: call.header.unique,
            thread: call.header.pid,
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

    /// Sets it if nobody is in the way.
    fn set(&self) -> Result<(), Errno> {
        let Some(range) = self.wanted.range() else { return self.wanted.set(&self.file, false) };
        let mut records = self.records.lock();
        self.wanted.set(&self.file, false)?;
        let refused = self.note(&mut records, range);
        drop(records);
        refused.into_iter().for_each(|request| end_wait(&self.waits, request));
        Ok(())
    }

    /// Waits for it.
    fn wait(&self) -> Result<(), Errno> {
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
    /// its owner closes the file again: who closed it while this one waited took only those there were.
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
fn end_wait(waits: &Mutex<Waits>, unique: u64) {
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
fn hear_wakes() {
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
    fn who_waited_has_the_lock_though_its_process_closed_the_file() {
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
