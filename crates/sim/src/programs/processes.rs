//! Processes that a command of ours started, and that are not children of this one: found by what the daemon says, killed,
//! and waited for.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, pidfd_send_signal, wait, waitpid,
};
use std::collections::HashMap;
use std::io;
use std::time::Duration;

/// Between two looks for processes to kill.
pub(crate) const KILL_EVERY: Duration = Duration::from_millis(5);

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

/// Kills every process that descends from this one, and takes in those that became its children. Returns when none is left.
pub(crate) fn end_descendants() {
    while kill_descendants() {
        std::thread::sleep(KILL_EVERY);
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}

/// Kills every process that descends from this one. Says whether there was any.
pub(crate) fn kill_descendants() -> bool {
    let parents: HashMap<Pid, Pid> = processes().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let own = getpid();
    let descends = |&pid: &Pid| {
        // A chain that changes while it is looked at may seem to be a circle.
        let chain = std::iter::successors(Some(pid), |pid| parents.get(pid).copied());
        chain.skip(1).take(parents.len()).any(|ancestor| ancestor == own)
    };
    let found: Vec<Pid> = parents.keys().filter(|pid| descends(pid)).copied().collect();
    for &pid in &found {
        // A process that is gone by now needs no signal.
        let _ = kill_process(pid, Signal::KILL);
    }
    !found.is_empty()
}

fn processes() -> impl Iterator<Item = Pid> {
    let names = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    names.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    // The name before it may hold anything.
    let behind_name = stat.rsplit_once(") ")?.1;
    Pid::from_raw(behind_name.split(' ').nth(1)?.parse().ok()?)
}
