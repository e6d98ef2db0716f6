//! The gate a fork passes: while it is closed no other thread is inside, so that the child's copy of what
//! threads share here (locks, free lists, the heap) is one that can be used.
//!
//! Nobody pays for it but the one who forks. A thread says that it is inside, then looks at the gate; who
//! closes the gate has the kernel put a barrier into every thread (`membarrier`), then looks who is inside.
//! A thread that is inside for long waits for something (room in the log, the daemon, another thread) and
//! then holds only what belongs to its session, which the child gives up: after a while the fork goes ahead.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::thread::futex;

use crate::arch;
use crate::thread::{self, ThreadState};

/// Longest wait for those inside.
const PATIENCE: Duration = Duration::from_millis(200);
const REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;
const PRIVATE_EXPEDITED: usize = 1 << 3;

static CLOSED: AtomicU32 = AtomicU32::new(0);
static THREADS: Mutex<Vec<Member>> = Mutex::new(Vec::new());

/// A thread that can be inside. Its state lives in it until it resigns.
struct Member(*mut ThreadState);

// SAFETY: only the flag that says whether the thread is inside is read through it.
unsafe impl Send for Member {}

/// Whether a thread that is about to go inside has to wait.
#[inline(always)]
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed) != 0
}

/// Waits, outside, until the gate is open.
#[cold]
pub fn wait_outside() {
    let _ = futex::wait(&CLOSED, futex::Flags::PRIVATE, 1, None);
}

/// From now on the calling thread is waited for.
pub fn join() {
    if let Ok(mut threads) = THREADS.lock() {
        threads.push(Member(arch::thread_state()));
    }
}

/// The calling thread ends.
pub fn resign() {
    if let Ok(mut threads) = THREADS.lock() {
        let me = arch::thread_state();
        threads.retain(|member| member.0 != me);
    }
}

/// Closes the gate for good: the process ends.
pub fn shut() {
    let threads = close();
    await_those_inside(&threads);
}

fn await_those_inside(threads: &[Member]) {
    let me = arch::thread_state();
    let deadline = Instant::now() + PATIENCE;
    for member in threads.iter().filter(|member| member.0 != me) {
        // SAFETY: a member's state is valid until it resigns, for which it needs the lock held here.
        while unsafe { (&raw const (*member.0).inside).read_volatile() } != 0 && Instant::now() < deadline {
            rustix::thread::sched_yield();
        }
    }
}

/// Runs `work` with no other thread inside.
pub fn alone<T>(work: impl FnOnce() -> T) -> T {
    let threads = close();
    await_those_inside(&threads);
    let answer = work();
    open();
    answer
}

fn open() {
    CLOSED.store(0, Ordering::Release);
    let _ = futex::wake(&CLOSED, futex::Flags::PRIVATE, i32::MAX as u32);
}

/// Runs `fork` with the gate closed, in the thread that is inside now. It answers 0 in the child.
pub fn pass(fork: impl FnOnce() -> isize) -> isize {
    let mut threads = close();
    let me = arch::thread_state();
    await_those_inside(&threads);
    let answer = fork();
    if answer == 0 {
        threads.retain(|member| member.0 == me);
    }
    open();
    answer
}

fn close() -> MutexGuard<'static, Vec<Member>> {
    let threads = loop {
        match THREADS.try_lock() {
            Ok(threads) => break threads,
            Err(std::sync::TryLockError::Poisoned(threads)) => break threads.into_inner(),
            // Another fork is waiting for this thread, too.
            Err(std::sync::TryLockError::WouldBlock) => {
                thread::leave();
                rustix::thread::sched_yield();
                thread::enter();
            }
        }
    };
    if threads.len() <= 1 {
        return threads;
    }
    CLOSED.store(1, Ordering::SeqCst);
    let barrier = |command| {
        // SAFETY: touches no memory.
        unsafe { arch::syscall(libc::SYS_membarrier as usize, [command, 0, 0, 0, 0, 0]) }
    };
    if barrier(PRIVATE_EXPEDITED) != 0 {
        barrier(REGISTER_PRIVATE_EXPEDITED);
        barrier(PRIVATE_EXPEDITED);
    }
    threads
}
