//! The process at the other end of a socket, as the kernel knows it since the connection was made.

use cuesta_libfs::{CallingProcess, Credentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::io;

/// Groups read at first; most users have fewer.
const GROUPS_USUAL: usize = 64;

/// A connected process, while it is there.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) socket: OwnedFd,
    /// The process, or 0.
    pub(crate) process: u32,
}

impl CallingProcess for Peer {
    /// The kernel closes the files of a process before its parent learns that it has ended. A child may have a copy of the socket until its
    /// first call: then the process is looked for.
    fn is_gone(&self) -> bool {
        let mut socket = [PollFd::new(&self.socket, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let process = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        matches!(poll(&mut socket, Some(&now)), Ok(1..))
            || process.is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
    }
}

/// A connected process's credentials. A user has the capabilities that go with its number, whatever the process has:
/// of that the kernel tells nothing.
pub(crate) fn credentials(socket: &OwnedFd) -> io::Result<Credentials> {
    let peer = rustix::net::sockopt::socket_peercred(socket)?;
    Ok(Credentials::of_user(peer.uid.as_raw(), peer.gid.as_raw(), groups(socket)?))
}

/// The process, as this one sees it; 0 if it cannot.
pub(crate) fn process(socket: &OwnedFd) -> u32 {
    let peer = rustix::net::sockopt::socket_peercred(socket);
    peer.map_or(0, |peer| peer.pid.as_raw_pid().unsigned_abs())
}

fn groups(socket: &OwnedFd) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; GROUPS_USUAL];
    loop {
        let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes to the buffer, and to `bytes` how many there are.
        let answer = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<u32>();
        if answer == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ERANGE) && count > groups.len() => {
                groups.resize(count, 0);
            }
            error => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    #[test]
    fn a_process_is_gone_that_hung_up_or_has_ended_while_a_child_keeps_its_socket() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let peer = |process| Peer { socket: ours.try_clone().unwrap().into(), process };
        let mut ended = Command::new("true").spawn().unwrap();
        assert!(!peer(std::process::id()).is_gone() && !peer(0).is_gone());
        ended.wait().unwrap();
        assert!(peer(ended.id()).is_gone());
        drop(theirs);
        assert!(peer(std::process::id()).is_gone());
    }
}
