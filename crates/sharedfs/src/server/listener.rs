//! The bound socket. Clients may connect before the store is recovered, and wait.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Connections that may wait for [`Server::start`](super::Server::start) while the store recovers.
const BACKLOG: i32 = 256;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {path}: {errno}")]
pub struct ListenError {
    path: String,
    errno: Errno,
}

/// The bound socket: clients may connect, and wait until the store is recovered.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: Arc<OwnedFd>,
    path: PathBuf,
}

impl Listener {
    /// Binds `path` for its owner alone. The caller holds the store's lock, so a socket already there is one
    /// that a killed daemon left behind.
    pub fn bind(path: &Path) -> Result<Listener, ListenError> {
        let fail = |errno| ListenError { path: path.display().to_string(), errno };
        match rustix::fs::unlink(path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(fail(errno)),
        }
        let address = SocketAddrUnix::new(path).map_err(fail)?;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .map_err(fail)?;
        // The mode of the socket file follows the descriptor's mode at bind: no other user can slip in
        // between.
        rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600)).map_err(fail)?;
        rustix::net::bind(&socket, &address).map_err(fail)?;
        rustix::net::listen(&socket, BACKLOG).map_err(fail)?;
        Ok(Listener { socket: Arc::new(socket), path: path.to_path_buf() })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A socket that stays behind does no harm: the next daemon replaces it.
        let _ = rustix::fs::unlink(&self.path);
    }
}
