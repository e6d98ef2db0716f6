//! Who is at the other end of a socket, as the kernel knows it since the connection was made.

use cuesta_libfs::{CallingProcess, Credentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd as _, OwnedFd};
use std::io;

/// Groups read at first; most users have fewer.
const GROUPS_USUAL: usize = 64;

/// A connected process, while it is there.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) socket: OwnedFd,
}

impl CallingProcess for Peer {
    /// The kernel closes the files of a process before its parent learns that it has ended.
    fn is_gone(&self) -> bool {
        let mut socket = [PollFd::new(&self.socket, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut socket, Some(&now)), Ok(1..))
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
