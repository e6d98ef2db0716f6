//! The process that has a store, found by the lock that it holds: its socket may have been removed, or be closed already.

use crate::messages::failure::Failure;
use crate::stores::store::Store;
use cuesta_sharedfs::server::holder_of;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

/// The kernel's mark of a process that ends, in the flags of `/proc/PID/stat`.
const EXITING: u64 = 0x4;
/// SIGKILL, in the sets of pending signals.
const KILL: u64 = 1 << 8;

/// A daemon, known by the lock it holds.
#[derive(Debug)]
pub struct Holder {
    pid: u32,
    process: OwnedFd,
}

/// The daemon that has the store; `None` where none has, or where it is another command that has the store.
pub fn daemon_of(store: &Store) -> Result<Option<Holder>, Failure> {
    let Some(pid) = pid_of(store)? else { return Ok(None) };
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(process) = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return Ok(None);
    };
    // Only now: until it was open, the number could have become another process's.
    let is_still = pid_of(store)? == Some(pid);
    // Of a process that exits the kernel takes the memory first, its command line with it, and then the files it has open.
    let is_daemon = is_daemon_of(pid, store) || is_exiting(pid);
    Ok((is_still && is_daemon).then_some(Holder { pid, process }))
}

fn pid_of(store: &Store) -> Result<Option<u32>, Failure> {
    let owner = store.folder().metadata().map_err(|error| Failure::on(store.folder(), error))?.uid();
    let holder = holder_of(store.folder(), owner).map_err(|error| Failure::on(store.folder(), error))?;
    Ok(holder.and_then(|pid| pid.parse().ok()))
}

/// Whether it is `cuesta serve`, of the store's user or of root. The file that says which process has the store can be written by
/// that user.
fn is_daemon_of(pid: u32, store: &Store) -> bool {
    let owner = |path: &std::path::Path| path.metadata().map(|found| found.uid()).ok();
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let uids = text(pid, "status");
    let uid =
        uids.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse().ok());
    words.split(|byte| *byte == 0).nth(1) == Some(b"serve") && uid.is_some() && uid == owner(store.folder())
}

fn text(pid: u32, name: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

impl Holder {
    /// Has it leave by SIGTERM, and waits until it has. Returns its process id.
    pub fn terminate(self, store: &Store) -> Result<u32, Failure> {
        let fail = |errno: Errno| {
            Failure::on(store.folder(), format!("cannot stop the daemon, process {}: {errno}", self.pid))
        };
        match pidfd_send_signal(&self.process, Signal::TERM) {
            Ok(()) => {}
            Err(Errno::SRCH) => return Ok(self.pid),
            Err(errno) => return Err(fail(errno)),
        }
        let mut ended = [PollFd::new(&self.process, PollFlags::IN)];
        loop {
            match poll(&mut ended, None) {
                Ok(_) => return Ok(self.pid),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
    }
}

/// Whether the kernel is about to end a process, or has ended it.
fn is_exiting(pid: u32) -> bool {
    let stat = text(pid, "stat");
    // Behind the name, which may hold anything: state, parent, …, flags.
    let Some((_, rest)) = stat.rsplit_once(')') else { return true };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let is_dead = matches!(words.first(), Some(&"Z" | &"X"));
    let flags = words.get(6).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or(0);
    is_dead || flags & EXITING != 0
}

/// Whether a process is ending: it was killed, or is a daemon that listens no more.
pub fn is_ending(pid: u32, store: &Store) -> bool {
    if is_exiting(pid) {
        return true;
    }
    let status = text(pid, "status");
    let pending = |name| {
        let set = status.lines().find_map(|line| line.strip_prefix(name));
        set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
    };
    let is_killed = (pending("SigPnd:") | pending("ShdPnd:")) & KILL != 0;
    // A socket that was removed says nothing: its daemon goes on.
    let met = std::os::unix::net::UnixStream::connect(store.socket());
    let hears_no_more = met.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
    is_killed || (hears_no_more && is_daemon_of(pid, store))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_killed_process_is_ending_and_a_living_one_is_not() {
        let store = Store::planned(PathBuf::from("/nowhere")).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!is_ending(child.id(), &store));
        child.kill().unwrap();
        while !is_ending(child.id(), &store) {
            std::thread::yield_now();
        }
        let pid = child.id();
        child.wait().unwrap();
        assert!(is_ending(pid, &store));
    }
}
