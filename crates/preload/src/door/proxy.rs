//! A program that filters its own system calls (`seccomp`), down to reading and writing perhaps.
//!
//! A session makes calls that such a filter does not know: it asks SharedFS by a socket, waits, maps. So before a filter is
//! installed a thread is made that it does not hold for, and from then on that thread does the program's calls about the store.
//! A thread of the program hands a call over with calls that every filter lets through, a write and a read of a pipe.
//!
//! The filter stays what it is to the program: whether it allows a call the kernel is asked first, by that call with arguments
//! that do nothing. A call about the calling thread is never handed over, nor one that makes processes or executes programs.

use crate::call::{Answer, Call, Failure};
use crate::calls::{self, following};
use crate::descriptors::{self, kernel};
use crate::door::proxy_state::{HOLDER, IS_ACTIVE};
use crate::{arch, process, thread};
use rustix::pipe::{PipeFlags, pipe_with};
use std::cell::UnsafeCell;
use std::os::fd::{AsFd as _, IntoRawFd as _};
use std::sync::atomic::{AtomicI32, Ordering};

const PR_SET_SECCOMP: i32 = 22;

const SECCOMP_SET_MODE_STRICT: u32 = 0;

const SECCOMP_SET_MODE_FILTER: u32 = 1;

/// The filter is to hold for every thread.
const FILTER_ALL_THREADS: usize = 1;

/// A thread that the C library makes another user by signals answers these two, and the proxy must.
const SIGNALS_OF_LIBC: u64 = 1 << 31 | 1 << 32;

/// Where calls are announced: the program's end, and the proxy's.
static ANNOUNCE: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];

/// Where answers are.
static TELL: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];

/// A call handed to the proxy.
struct Request {
    call: Call,
    how: How,
    answer: Answer,
}

/// How a call is served.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// By what it names.
    Plainly,
    /// Links of the kernel's are followed before.
    LookingFirst,
    /// The kernel has found nothing.
    LookingAgain,
    /// It may install a filter.
    InstallingFilter,
}

impl How {
    /// Serves the call in the calling thread.
    pub fn serve(self, call: &Call) -> Answer {
        match self {
            How::Plainly => calls::serve(call.number, call.arguments),
            How::LookingFirst => following::look_first(call),
            How::LookingAgain => following::look_again(call),
            How::InstallingFilter => before_filter(call),
        }
    }
}

struct RequestSlot(UnsafeCell<Request>);

// SAFETY: the holder writes it before it announces a call, the proxy between that and the answer.
unsafe impl Sync for RequestSlot {}

const NOTHING: Call = Call { number: 0, arguments: [0; 6] };

static REQUEST: RequestSlot =
    RequestSlot(UnsafeCell::new(Request { call: NOTHING, how: How::Plainly, answer: Ok(0) }));

/// Serves a call: by the proxy, where there is one and the call is for it.
#[inline(always)]
pub fn serve(call: &Call, how: How) -> Answer {
    match IS_ACTIVE.load(Ordering::Relaxed) {
        0 => how.serve(call),
        _ => by_proxy(call, how),
    }
}

/// Whether a call can install a filter.
#[inline(always)]
pub fn may_install_filter(call: &Call) -> bool {
    matches!(call.number as i64, libc::SYS_prctl | libc::SYS_seccomp)
}

/// A filter is about to be installed, or asked for (`prctl`, `seccomp`).
#[cold]
fn before_filter(call: &Call) -> Answer {
    let is_installed = match call.number as i64 {
        libc::SYS_prctl => call.int(0) == PR_SET_SECCOMP,
        _ => matches!(call.word(0) as u32, SECCOMP_SET_MODE_STRICT | SECCOMP_SET_MODE_FILTER),
    };
    if !is_installed || thread::is_vforked() {
        return Err(Failure::NotOurs);
    }
    thread::ensure_stack();
    let is_alone = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if IS_ACTIVE.load(Ordering::Relaxed) == 0 && start().is_none() {
        return Err(Failure::NotOurs);
    }
    let mut arguments = call.arguments;
    if call.number as i64 == libc::SYS_seccomp && is_alone {
        // The caller is the program's only thread.
        arguments[1] &= !FILTER_ALL_THREADS;
    }
    Ok(call.kernel(arguments))
}

fn start() -> Option<()> {
    process::client().ok()?;
    for pair in [&ANNOUNCE, &TELL] {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        for (place, end) in pair.iter().zip([writing, reading]) {
            let end = kernel::set_aside(end.as_fd()).ok()?.into_raw_fd();
            descriptors::hide(end, true);
            place.store(end, Ordering::Release);
        }
    }
    std::thread::Builder::new().name("cuesta".into()).spawn(work).ok()?;
    IS_ACTIVE.store(1, Ordering::Release);
    Some(())
}

/// The proxy, for the rest of the process.
fn work() {
    let blocked = !SIGNALS_OF_LIBC;
    let arguments = [libc::SIG_SETMASK as usize, &raw const blocked as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the calling thread's own mask.
    unsafe { arch::syscall(libc::SYS_rt_sigprocmask as usize, arguments) };
    while is_announced() && take(&ANNOUNCE[1]) {
        // SAFETY: a call was announced, so that the place is this thread's until it answers.
        let asked = unsafe { &mut *REQUEST.0.get() };
        thread::enter();
        asked.answer = answer(asked);
        thread::leave();
        give(&TELL[0]);
    }
}

fn answer(asked: &Request) -> Answer {
    let serve = || match asked.call.number as i64 {
        libc::SYS_exit_group => {
            process::leave_by_proxy();
            Err(Failure::NotOurs)
        }
        _ => asked.how.serve(&asked.call),
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(serve)).unwrap_or(Err(Failure::Errno(libc::EIO)))
}

/// Waits for a call, as long as the program has threads: with the last of them the process ends, and its status is that of the
/// first. No filter lets a thread say that it ends.
fn is_announced() -> bool {
    const LOOK_MS: usize = 50;
    loop {
        let mut ready =
            libc::pollfd { fd: ANNOUNCE[1].load(Ordering::Acquire), events: libc::POLLIN, revents: 0 };
        // SAFETY: waits for a pipe of this library's.
        match unsafe {
            arch::syscall(libc::SYS_poll as usize, [&raw mut ready as usize, 1, LOOK_MS, 0, 0, 0])
        } {
            0 => {
                // The calls made here go to the kernel.
                thread::enter();
                if is_alone() {
                    process::leave_by_proxy();
                    // SAFETY: ends this thread, the last.
                    unsafe { arch::syscall(libc::SYS_exit as usize, [0; 6]) };
                }
                thread::leave();
            }
            1 => return true,
            _ => {}
        }
    }
}

/// Whether all other threads have ended.
fn is_alone() -> bool {
    let own = rustix::thread::gettid().as_raw_nonzero().get().to_string();
    let has_ended = |task: std::fs::DirEntry| {
        let said = std::fs::read(task.path().join("stat")).unwrap_or_default();
        // Behind the name, which may hold anything.
        let state = said.iter().rposition(|byte| *byte == b')').and_then(|end| said.get(end + 2));
        matches!(state, None | Some(b'Z' | b'X'))
    };
    let Ok(mut tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    tasks.all(|task| {
        task.is_ok_and(|task| task.file_name().as_encoded_bytes() == own.as_bytes() || has_ended(task))
    })
}

fn by_proxy(call: &Call, how: How) -> Answer {
    let Some(harmless) = harmless(call) else { return how.serve(call) };
    if let Some(arguments) = harmless {
        match call.kernel(arguments) {
            answer if is_of_filter(answer) => return Ok(answer),
            _ => {}
        }
    }
    // No filter can be asked to let a wait through.
    while HOLDER.swap(true, Ordering::Acquire) {
        std::hint::spin_loop();
    }
    // SAFETY: this thread holds the place, until it announces the call.
    unsafe { *REQUEST.0.get() = Request { call: *call, how, answer: Err(Failure::Errno(libc::EIO)) } };
    give(&ANNOUNCE[0]);
    take(&TELL[1]);
    // SAFETY: the proxy has answered.
    let answer = unsafe { (*REQUEST.0.get()).answer };
    HOLDER.store(false, Ordering::Release);
    answer
}

/// Whether an answer is what only a filter says of arguments that do nothing.
fn is_of_filter(answer: isize) -> bool {
    matches!(-(answer.clamp(-4095, 0)) as i32, libc::EPERM | libc::EACCES | libc::ENOSYS)
}

/// Arguments with which the kernel does nothing, and the filter decides as about the call's: it looks at numbers. `None`
/// within: it need not be asked. `None`: not a call for the proxy.
fn harmless(call: &Call) -> Option<Option<[usize; 6]>> {
    let with = |changes: &[(usize, usize)]| {
        let mut arguments = call.arguments;
        changes.iter().for_each(|&(index, value)| arguments[index] = value);
        Some(Some(arguments))
    };
    let nothing = c"".as_ptr() as usize;
    match call.number as i64 {
        libc::SYS_exit_group => Some(None),
        libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64 => with(&[(2, 0)]),
        libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_preadv
        | libc::SYS_pwritev
        | libc::SYS_preadv2
        | libc::SYS_pwritev2 => with(&[(2, 0)]),
        libc::SYS_close
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_fstat
        | libc::SYS_fstatfs
        | libc::SYS_lseek
        | libc::SYS_getdents
        | libc::SYS_getdents64
        | libc::SYS_fchmod
        | libc::SYS_fchown
        | libc::SYS_fadvise64
        | libc::SYS_flock
        | libc::SYS_fchdir => with(&[(0, usize::MAX)]),
        libc::SYS_fcntl | libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => with(&[(0, usize::MAX)]),
        // Without a length nothing is mapped.
        libc::SYS_mmap => with(&[(1, 0)]),
        libc::SYS_open
        | libc::SYS_creat
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_access
        | libc::SYS_readlink
        | libc::SYS_unlink
        | libc::SYS_rmdir
        | libc::SYS_mkdir
        | libc::SYS_truncate
        | libc::SYS_chmod
        | libc::SYS_chdir => with(&[(0, nothing)]),
        libc::SYS_rename | libc::SYS_link | libc::SYS_symlink => with(&[(0, nothing), (1, nothing)]),
        libc::SYS_openat
        | libc::SYS_faccessat
        | libc::SYS_readlinkat
        | libc::SYS_unlinkat
        | libc::SYS_mkdirat
        | libc::SYS_fchmodat => with(&[(1, nothing)]),
        // An empty path may mean the descriptor.
        libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_faccessat2 => {
            with(&[(0, usize::MAX), (1, nothing)])
        }
        libc::SYS_renameat | libc::SYS_renameat2 => with(&[(1, nothing), (3, nothing)]),
        libc::SYS_getcwd => with(&[(1, 0)]),
        _ => None,
    }
}

fn give(end: &AtomicI32) {
    let arguments = [end.load(Ordering::Acquire) as usize, [1u8].as_ptr() as usize, 1, 0, 0, 0];
    // SAFETY: writes a byte to a pipe of this library's.
    while unsafe { arch::syscall(libc::SYS_write as usize, arguments) } == -(libc::EINTR as isize) {}
}

/// Waits for one; whether it came.
fn take(end: &AtomicI32) -> bool {
    let mut byte = 0u8;
    let arguments = [end.load(Ordering::Acquire) as usize, &raw mut byte as usize, 1, 0, 0, 0];
    loop {
        // SAFETY: reads a byte from a pipe of this library's.
        match unsafe { arch::syscall(libc::SYS_read as usize, arguments) } {
            1 => return true,
            answer if answer == -(libc::EINTR as isize) => {}
            _ => return false,
        }
    }
}
