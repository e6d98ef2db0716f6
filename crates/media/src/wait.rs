//! Waiting and waking across processes: futexes in shared pages, eventfds, and the sealed memory they lie in.

use crate::error::MediaError;
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::thread::futex;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Somebody woke us, or a signal did: look again.
    Woken,
    /// The word did not hold the expected value.
    Changed,
    /// The time was up.
    TimedOut,
}

/// Sleeps until `word` (in memory shared with other processes) is woken, unless it no longer holds `expected`.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> Waited {
    let timeout = timeout.map(|time| futex::Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    match futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref()) {
        Err(Errno::AGAIN) => Waited::Changed,
        Err(Errno::TIMEDOUT) => Waited::TimedOut,
        _ => Waited::Woken,
    }
}

/// Wakes everybody who waits on `word`, in any process.
pub fn wake_all(word: &AtomicU32) {
    // The call fails only on an address that is not a mapped word, which a reference cannot be.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

/// A counter that processes hand each other to say "there is work". Reads and writes never block.
pub fn eventfd() -> Result<OwnedFd, MediaError> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(MediaError::system("create eventfd"))
}

/// Adds one to an eventfd. A counter that is full is as good as raised.
pub fn raise(eventfd: impl AsFd) -> Result<(), MediaError> {
    match rustix::io::write(eventfd, &1u64.to_ne_bytes()) {
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(errno) => Err(MediaError::system("raise eventfd")(errno)),
    }
}

/// Takes what was added to an eventfd since the last time; 0 if nothing was.
pub fn drain(eventfd: impl AsFd) -> Result<u64, MediaError> {
    let mut count = [0; 8];
    match rustix::io::read(eventfd, &mut count) {
        Ok(_) => Ok(u64::from_ne_bytes(count)),
        Err(Errno::AGAIN) => Ok(0),
        Err(errno) => Err(MediaError::system("drain eventfd")(errno)),
    }
}

/// Memory of `len` zero bytes to share by descriptor. Its size is sealed, so no peer can
/// make an access to it fault by truncating it.
pub fn sealed_memfd(name: &str, len: u64) -> Result<OwnedFd, MediaError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create(name, flags).map_err(MediaError::system("create shared memory"))?;
    rustix::fs::ftruncate(&memory, len).map_err(MediaError::system("size shared memory"))?;
    let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memory, seals).map_err(MediaError::system("seal shared memory"))?;
    Ok(memory)
}
