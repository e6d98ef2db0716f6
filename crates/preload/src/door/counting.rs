//! Counting what becomes of calls, for `cuesta doctor`, in the account that the whole run shares.
//!
//! While it counts, the filter lets every call through to the door that names a file by its path or descriptor, so
//! that those of the kernel are counted, too; without it the filter's tables, and so what a call costs, are as
//! always. Of calls that name no file (a fork, a new umask) only those are counted that are about the store.
//!
//! `CUESTA_DOCTOR` says where the account is, which of its programs this is, and for which process that was said: a process
//! that inherited the variable from one the library is not in is a program of its own.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use cuesta_format::account::{ACCOUNT_BYTES, Account, Barrier, Kind, Outcome, ProgramIndex};
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::arch::Frame;
use crate::call::filter::{self, class_of};
use crate::call::{Answer, Call, Failure, kinds};
use crate::calls::descriptors::sockets;
use crate::calls::paths::store_path;
use crate::descriptors::{self, working_directory};
use crate::memory::user_memory::UserPath;
use crate::process;

/// Set in the environment of a program that is watched, and in no other.
pub const VARIABLE: &str = "CUESTA_DOCTOR";

const NOTHING_FOUND: Answer = Ok(-(libc::ENOENT as isize));
const NO_PROGRAM: u32 = u32::MAX;

static ACCOUNT: AtomicPtr<Account> = AtomicPtr::new(std::ptr::null_mut());
/// Which program of the account this is.
static PROGRAM: AtomicU32 = AtomicU32::new(NO_PROGRAM);
/// Where the account is, for the programs to come.
static PLACE: OnceLock<String> = OnceLock::new();

/// Counts from now on, as `variable` says. Call once, before there are threads.
pub fn start(variable: &CStr) {
    let mut words = variable.to_str().unwrap_or_default().split(' ');
    let Some(account) = words.next().and_then(map) else { return };
    let told = words.next().zip(words.next()).and_then(|(index, whom)| told(index, whom));
    let program = told.or_else(|| {
        let path = rustix::fs::readlink("/proc/self/exe", Vec::new()).ok()?;
        let program = account.program(path.as_bytes())?;
        account.executes(program);
        Some(program)
    });
    if let Some(program) = program {
        account.watches(program);
        PROGRAM.store(program.0, Ordering::Relaxed);
    }
    filter::watch_all();
}

fn map(place: &str) -> Option<&'static Account> {
    let file = rustix::fs::open(place, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
    if rustix::fs::fstat(&file).ok()?.st_size != ACCOUNT_BYTES as i64 {
        return None;
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new shared mapping of a file of this size, which its maker sealed; all fields are atomic words.
    let account = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), ACCOUNT_BYTES, access, MapFlags::SHARED, &file, 0).ok()?
    };
    // SAFETY: the mapping just made, which stays for good.
    let account = unsafe { &*account.cast::<Account>() };
    if !account.is_current() {
        return None;
    }
    let _ = PLACE.set(place.to_owned());
    ACCOUNT.store(std::ptr::from_ref(account).cast_mut(), Ordering::Release);
    Some(account)
}

/// The program named in the variable, if that was said for this process: by its own number, or, behind a `^`, by its
/// parent's.
fn told(index: &str, whom: &str) -> Option<ProgramIndex> {
    let process = match whom.strip_prefix('^') {
        Some(parent) => rustix::process::getppid().is_some_and(|pid| pid.to_string() == parent),
        None => rustix::process::getpid().to_string() == whom,
    };
    process.then(|| index.parse().ok()).flatten().map(ProgramIndex)
}

/// The account, if this run has one.
#[inline]
fn account() -> Option<&'static Account> {
    // SAFETY: null, or the mapping made by `map`, which stays for good.
    unsafe { ACCOUNT.load(Ordering::Relaxed).as_ref() }
}

/// Whether this run has an account.
#[inline(always)]
pub fn counts() -> bool {
    account().is_some()
}

fn program() -> Option<ProgramIndex> {
    Some(PROGRAM.load(Ordering::Relaxed)).filter(|index| *index != NO_PROGRAM).map(ProgramIndex)
}

/// So many system call instructions of this program cannot be intercepted.
pub fn note_missed_sites(sites: usize) {
    if let Some((account, program)) = account().zip(program()) {
        account.misses_sites(program, sites);
    }
}

/// Counts a call and its answer.
#[inline]
pub fn note(frame: &Frame, call: &Call, answer: Answer) {
    if let Some(account) = account() {
        note_in(account, frame, call, answer);
    }
}

#[cold]
fn note_in(account: &Account, frame: &Frame, call: &Call, answer: Answer) {
    let (outcome, errno) = match answer {
        Err(Failure::Unserved(errno)) => (Outcome::Unserved, errno),
        Err(Failure::NotOurs) if frame.comes_again() => return,
        // It was counted when it was passed on, and the kernel found nothing; nor did the store.
        Ok(_) if frame.found_nothing() && answer == NOTHING_FOUND => return,
        Err(Failure::NotOurs) => (Outcome::Passed, 0),
        _ if is_hidden(call) => return,
        _ if !is_of_store(call, answer) => (Outcome::Passed, 0),
        Err(Failure::Errno(errno)) => (Outcome::Failed, errno),
        Err(Failure::OverLimit) => (Outcome::Failed, libc::EFBIG),
        Ok(answer @ -4095..0) => (Outcome::Failed, -answer as i32),
        Ok(_) => (Outcome::Served, 0),
    };
    if outcome != Outcome::Passed || names_file(call) {
        let kind = Kind { number: call.number as u32, outcome, errno: errno as u16 };
        account.count(kind, program(), || about(call));
    }
}

/// Whether the call names a file, so that the kernel's are counted as well.
fn names_file(call: &Call) -> bool {
    let number = call.number as i64;
    let is_by_path =
        matches!(number, libc::SYS_chdir | libc::SYS_openat2 | libc::SYS_execve | libc::SYS_execveat);
    // An exec that succeeds never gets here, and is counted before.
    is_by_path
        || matches!(class_of(number), filter::CLASS_FD..=filter::CLASS_AT_THIRD) && !is_anonymous_map(call)
}

fn is_anonymous_map(call: &Call) -> bool {
    call.number as i64 == libc::SYS_mmap && call.int(3) & libc::MAP_ANONYMOUS != 0
}

/// Whether the call tries a descriptor that is this library's own, as loops that close everything do.
fn is_hidden(call: &Call) -> bool {
    class_of(call.number as i64) == filter::CLASS_FD && descriptors::is_hidden(call.int(0))
}

/// Whether a call that was answered here was about the store: some are the kernel's and made here all the same.
fn is_of_store(call: &Call, answer: Answer) -> bool {
    match call.number as i64 {
        libc::SYS_mmap => descriptors::pin(call.int(4)).is_some(),
        libc::SYS_chdir | libc::SYS_fchdir => match answer {
            Ok(0) => working_directory::pin().is_some(),
            Ok(_) => false,
            Err(_) => true,
        },
        libc::SYS_execve => store_path::locate(call, None, 0).is_ok(),
        libc::SYS_execveat => store_path::locate(call, Some(0), 1).is_ok(),
        libc::SYS_recvmsg | libc::SYS_recvmmsg => sockets::brings_ours(call, answer),
        libc::SYS_pidfd_getfd => answer.map_or(true, |fd| descriptors::pin(fd as i32).is_some()),
        number if kinds::is_changed_by(number) => false,
        number => !matches!(
            number,
            libc::SYS_rt_sigaction
                | libc::SYS_sigaltstack
                | libc::SYS_umask
                | libc::SYS_close_range
                | libc::SYS_clone
                | libc::SYS_clone3
                | libc::SYS_fork
                | libc::SYS_vfork
                | libc::SYS_setrlimit
                | libc::SYS_prlimit64
        ),
    }
}

/// The path the call is about, as far as it has one.
fn about(call: &Call) -> Vec<u8> {
    let number = call.number as i64;
    let (directory, path) = match class_of(number) {
        filter::CLASS_PATH | filter::CLASS_PATH_PATH => (None, 0),
        filter::CLASS_PATH_SECOND => (None, 1),
        filter::CLASS_AT | filter::CLASS_AT_AT => (Some(0), 1),
        filter::CLASS_AT_THIRD => (Some(1), 2),
        filter::CLASS_FD => return of_descriptor(call.int(0)),
        filter::CLASS_FD_FD => return of_descriptor(ours_of(call, 1)),
        filter::CLASS_FD_THIRD => return of_descriptor(ours_of(call, 2)),
        filter::CLASS_FD_FIFTH => return of_descriptor(call.int(4)),
        _ => match number {
            libc::SYS_execve | libc::SYS_chdir => (None, 0),
            libc::SYS_inotify_add_watch => (None, 1),
            libc::SYS_openat2 | libc::SYS_execveat => (Some(0), 1),
            libc::SYS_fchdir | libc::SYS_sendmsg | libc::SYS_sendmmsg => return of_descriptor(call.int(0)),
            _ => return Vec::new(),
        },
    };
    let Ok(path) = UserPath::read(call.word(path)) else { return Vec::new() };
    let directory = directory.map_or(libc::AT_FDCWD, |index| call.int(index));
    absolute(directory, path.as_bytes())
}

/// Of the first descriptor and another: the one that is ours.
fn ours_of(call: &Call, other: usize) -> i32 {
    let is_other = descriptors::pin(call.int(0)).is_none() && descriptors::pin(call.int(other)).is_some();
    call.int(if is_other { other } else { 0 })
}

/// A path as the program would name it from anywhere, if it names a place of the store.
fn absolute(directory: i32, path: &[u8]) -> Vec<u8> {
    if path.first() == Some(&b'/') {
        return path.to_vec();
    }
    match store_path::locate_bytes(directory, path) {
        Ok(place) => below_prefix(&place.name()),
        Err(_) if path.is_empty() => of_descriptor(directory),
        Err(_) => path.to_vec(),
    }
}

fn of_descriptor(fd: i32) -> Vec<u8> {
    match descriptors::pin(fd) {
        Some(pin) => below_prefix(pin.path()),
        None => working_directory::kernel_path(fd).unwrap_or_default(),
    }
}

fn below_prefix(path: &[u8]) -> Vec<u8> {
    let mut whole = process::configuration().map_or_else(|_| Vec::new(), |found| found.prefix.clone());
    whole.extend_from_slice(path);
    whole
}

/// A program that was counted as executed.
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    account: &'static Account,
    program: Option<ProgramIndex>,
}

impl Executed {
    /// The kernel has refused to execute it.
    pub fn take_back(self) {
        if let Some(program) = self.program {
            self.account.did_not_execute(program);
        }
    }
}

/// Counts an exec that is about to be made, of the program at `path`, if this run has an account. Answers the variable by which
/// the program will know itself, as `NAME=value`, and the count.
pub fn note_exec(
    call: &Call,
    path: &[u8],
    is_in_store: bool,
    barrier: Option<Barrier>,
) -> Option<(CString, Executed)> {
    let (account, place) = account().zip(PLACE.get())?;
    let outcome = if is_in_store { Outcome::Served } else { Outcome::Passed };
    account.count(Kind { number: call.number as u32, outcome, errno: 0 }, self::program(), || path.to_vec());
    let program = account.program(path);
    if let Some(program) = program {
        account.executes(program);
    }
    if let (Some(program), Some(barrier)) = (program, barrier) {
        account.is_barred(program, barrier);
    }
    let text = match (program, barrier) {
        (Some(program), None) => format!("{VARIABLE}={place} {} {}", program.0, rustix::process::getpid()),
        // A program without this library starts others, and cannot speak for them.
        _ => format!("{VARIABLE}={place}"),
    };
    Some((CString::new(text).ok()?, Executed { account, program }))
}

/// Counts an exec that is refused: the library cannot be loaded into the program at `path`.
pub fn note_refused(path: &[u8], barrier: Barrier) {
    if let Some(account) = account()
        && let Some(program) = account.program(path)
    {
        account.refuses(program);
        account.is_barred(program, barrier);
    }
}
