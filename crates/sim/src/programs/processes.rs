//! Processes that a command of ours started, and that are not children of this one: found by what the daemon says, killed,
//! and waited for.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use std::io;

/// A process that is told of by its number.
pub(crate) fn process(number: &serde_json::Value) -> Option<Pid> {
    Pid::from_raw(number.as_i64()?.try_into().ok()?)
}

/// The process that serves the store's mount, as `cuesta status --json` says. One that was unmounted may not have ended yet.
pub(crate) fn server_of_mount(status: &serde_json::Value) -> Option<Pid> {
    let sessions = status["sessions"].as_array()?;
    let of_mount = sessions.iter().rfind(|session| session["program"] == "(mount)");
    of_mount.and_then(|session| process(&session["pid"]))
}

/// Sends a process a signal, if it is not to end by itself; returns when it is dead.
pub(crate) fn end(process: Pid, signal: Option<Signal>) -> io::Result<()> {
    match pidfd_open(process, PidfdFlags::empty()) {
        Ok(descriptor) => {
            match signal.map_or(Ok(()), |signal| pidfd_send_signal(&descriptor, signal)) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(errno) => return Err(errno.into()),
            }
            while poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None) == Err(Errno::INTR) {}
        }
        Err(Errno::SRCH) => {}
        Err(errno) => return Err(errno.into()),
    }
    reap(process);
    Ok(())
}

/// It may have become our child, when the program that had started it died.
pub(crate) fn reap(process: Pid) {
    let _ = waitpid(Some(process), WaitOptions::NOHANG);
}
