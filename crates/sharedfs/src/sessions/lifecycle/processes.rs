//! Whether the process of a session lives, as its number says.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use std::os::fd::OwnedFd;

/// The process of a session when its daemon is gone.
pub(crate) enum Process {
    /// It cannot write to its log any more.
    Dead,
    /// It may, and is none that comes back: this one, or one of another namespace.
    Stranger,
    /// It lives, and may come back. A number that another process has by now costs the log until that ends.
    Alive(OwnedFd),
}

pub(crate) fn process(pid: u32) -> Process {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Process::Stranger };
    if pid == getpid() {
        return Process::Stranger;
    }
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => Process::Alive(process),
        Err(Errno::SRCH) => Process::Dead,
        Err(_) => Process::Stranger,
    }
}
