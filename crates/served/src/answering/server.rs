//! The daemon's second pair of ears: the socket for processes of other users, a thread for each of them.
//!
//! One session does the work of all. It is begun when the first of them comes, and anew if it was ended.

use crate::answering::file_table::FileTable;
use crate::answering::files::Files;
use crate::answering::first_calls::FirstCallCounter;
use crate::answering::serving;
use crate::answering::shared::Shared;
use crate::shares::accounts::{Accounts, Holder, Share};
use crate::shares::complaints::Complaint;
use crate::shares::limits::Limits;
use crate::shares::resource::Resource;
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
use std::time::Duration;

/// A process that can reach the folder may use the socket in it.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o711);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// Address space of a connection's stack; only what is touched costs memory.
const STACK_BYTES: usize = 512 << 10;
/// How long to wait before accepting again when descriptors or threads have run out.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// Complaints about no particular user are told as this one's, which is no user's number.
const DAEMON: u32 = u32::MAX;
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
    socket: OwnedFd,
    path: PathBuf,
}

/// The running service.
pub struct Server {
    shared: Arc<Shared>,
    listener: Arc<Listener>,
    threads: Vec<JoinHandle<()>>,
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
            Ok(socket) => Ok(Listener { socket, path }),
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
        let listener = Arc::new(listener);
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
        let accept = Builder::new().name("users".into()).spawn({
            let (shared, listener) = (Arc::clone(&shared), Arc::clone(&listener));
            move || accept(&shared, &listener.socket)
        });
        let threads = vec![watch.map_err(fail)?, accept.map_err(fail)?];
        Ok(Server { shared, listener, threads })
    }

    /// `session` executes the calls, as long as it is attached.
    pub fn serve_by(&self, session: Arc<Client>) {
        self.shared.use_session(session);
    }

    /// No new client is served from now on. Those served already are served until the store closes.
    pub fn stop(self) {
        let _ = rustix::net::shutdown(&self.listener.socket, rustix::net::Shutdown::Both);
        self.shared.files.stop();
        for thread in self.threads {
            let _ = thread.join();
        }
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

/// Accepts connections until the socket is shut down.
fn accept(shared: &Arc<Shared>, listening: &OwnedFd) {
    loop {
        let socket = match rustix::net::accept_with(listening, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            // What Linux answers once the listening socket was shut down.
            Err(Errno::INVAL) => return,
            Err(error) => {
                if let Some(left_out) = shared.complaints.is_told(Complaint::Service, DAEMON) {
                    tracing::error!(%error, left_out, "cannot accept a connection of another user");
                }
                std::thread::sleep(EXHAUSTED_PAUSE);
                continue;
            }
        };
        let Some(who) = serving::who(&socket) else { continue };
        let holder = Holder::of(&who);
        let take = |resource| shared.files.accounts().take(holder, resource, 1);
        let (Some(connection), Some(descriptor)) = (take(Resource::Connections), take(Resource::Descriptors))
        else {
            if let Some(left_out) = shared.complaints.is_told(Complaint::Connections, who.uid) {
                tracing::warn!(user = who.uid, left_out, "too many connections: one is closed");
            }
            continue;
        };
        let entered: [Share; 2] = [connection, descriptor];
        let thread = Builder::new().name("user".into()).stack_size(STACK_BYTES);
        let spawned = thread.spawn({
            let shared = Arc::clone(shared);
            move || {
                // They go last, however the connection's thread ends.
                let _entered = entered;
                serving::serve(socket, who, &shared);
            }
        });
        if let Err(error) = spawned {
            if let Some(left_out) = shared.complaints.is_told(Complaint::Service, DAEMON) {
                tracing::error!(%error, left_out, "no thread for a connection: it is closed");
            }
            std::thread::sleep(EXHAUSTED_PAUSE);
        }
    }
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
