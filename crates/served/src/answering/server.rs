//! The daemon's second pair of ears: the socket for processes of other users, and for calls that sessions do not do themselves.
//!
//! One session does the work of all. It is begun when the first of them comes, and anew if it was ended.

use crate::answering::accepting::{self, Acceptors};
use crate::answering::file_table::FileTable;
use crate::answering::files::Files;
use crate::answering::first_calls::FirstCallCounter;
use crate::answering::shared::Shared;
use crate::shares::accounts::Accounts;
use crate::shares::limits::Limits;
use cuesta_format::geometry::USERS_SOCKET_FILE;
use cuesta_libfs::Client;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A process that can reach the folder may use the socket in it.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o711);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// Why other users are not served.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {path}: {source}")]
pub struct StartError {
    path: String,
    source: io::Error,
}

/// The socket, at its path for as long as this lives. A client that comes before it is served waits.
#[derive(Debug)]
pub struct Listener {
    socket: Arc<OwnedFd>,
    path: PathBuf,
}

/// The running service.
pub struct Server {
    shared: Arc<Shared>,
    listener: Listener,
    acceptors: Arc<Acceptors>,
    watch: JoinHandle<()>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Listener {
    /// Listens in `folder`, which is made if there is none, for everybody who can reach it.
    pub fn bind(folder: &Path) -> Result<Listener, StartError> {
        let path = folder.join(USERS_SOCKET_FILE);
        match listen(folder, &path) {
            Ok(socket) => Ok(Listener { socket: Arc::new(socket), path }),
            Err(errno) => Err(StartError { path: path.display().to_string(), source: errno.into() }),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // One that stays behind has others wait for the next daemon, that is all.
        let _ = rustix::fs::unlink(&self.path);
    }
}

impl Server {
    /// As [`Server::start_within`], with the limits that a store has by default, and no count of first calls.
    pub fn start(listener: Listener, sharedfs: &Path, tier: &Path) -> Result<Server, StartError> {
        Server::start_within(Limits::default(), listener, sharedfs, tier, Arc::new(()))
    }

    /// Serves the clients of `listener` by a session of the daemon at `sharedfs`, each user within `limits`. The state that must outlive it
    /// lies in the store's `tier`: files that were open with the daemon before are open again.
    pub fn start_within(
        limits: Limits,
        listener: Listener,
        sharedfs: &Path,
        tier: &Path,
        first_calls: Arc<dyn FirstCallCounter>,
    ) -> Result<Server, StartError> {
        let fail = |source: io::Error| StartError { path: listener.path.display().to_string(), source };
        let (kept, found) = FileTable::open(tier).map_err(fail)?;
        let accounts = Accounts::new(limits);
        let files = Files::new(kept, Arc::clone(&accounts)).map_err(fail)?;
        let shared = Arc::new(Shared::new(sharedfs.to_owned(), files, first_calls));
        if !found.is_empty() {
            match shared.client() {
                Ok(client) => shared.files.restore(&client, found),
                Err(error) => tracing::error!(%error, "what other users had open is lost to them"),
            }
        }
        let watch = Builder::new().name("users-files".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.files.watch()
        });
        let watch = watch.map_err(fail)?;
        let acceptors = accepting::start(Arc::clone(&shared), Arc::clone(&listener.socket)).map_err(fail)?;
        Ok(Server { shared, listener, acceptors, watch })
    }

    /// `session` executes the calls, as long as it is attached.
    pub fn serve_by(&self, session: Arc<Client>) {
        self.shared.use_session(session);
    }

    /// No new client is served from now on. Those served already are served until the store closes.
    pub fn stop(self) {
        let _ = rustix::net::shutdown(&*self.listener.socket, rustix::net::Shutdown::Both);
        self.shared.files.stop();
        self.acceptors.wait();
        let _ = self.watch.join();
    }
}

/// Whoever looks meanwhile finds the socket of the daemon before, which is patiently tried again, or one that is ready: the
/// file that `bind` makes is not everybody's.
fn listen(folder: &Path, path: &Path) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdir(folder, FOLDER_MODE) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    rustix::fs::chmod(folder, FOLDER_MODE)?;
    // No longer than the name it gets: that of a socket has a limit.
    let made = path.with_file_name("new");
    match rustix::fs::unlink(&made) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let address = SocketAddrUnix::new(&made)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &address)?;
    // Any process that can reach it may ask; the answer depends on its credentials.
    rustix::fs::chmod(&made, Mode::from_raw_mode(0o666))?;
    rustix::net::listen(&socket, BACKLOG)?;
    rustix::fs::rename(&made, path)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};

    const DAEMONS: usize = 300;

    #[test]
    fn a_look_while_a_daemon_takes_over_sees_a_socket_that_every_user_may_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(USERS_SOCKET_FILE);
        let first = listen(folder.path(), &path).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let mode = std::fs::metadata(&path).map(|found| found.permissions().mode() & 0o777);
                    if mode.as_ref().ok() != Some(&0o666) {
                        return Err(format!("{mode:?}"));
                    }
                }
                Ok(())
            });
            let next: Result<Vec<OwnedFd>, Errno> =
                (0..DAEMONS).map(|_| listen(folder.path(), &path)).collect();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(looking.join().unwrap(), Ok(()));
            assert_eq!(next.map(|next| next.len()), Ok(DAEMONS));
        });
        drop(first);
    }
}
