//! The daemon's ears: the store's lock and socket, one thread a connection, one digest thread.
//!
//! Nothing here knows what a request means. The core stands behind [`Service`], so the tests of
//! this module run without a store, and the simulator runs the core without a socket.
//!
//! | thread | blocks on | does |
//! |---|---|---|
//! | connection | the socket, then its client | hands requests to the service; a hang-up ends the session |
//! | digest | the kicks of all sessions and its clock | digests what is due |
//! | prepare | what was ready being taken | makes segments and arenas ready |
//! | the caller's | [`Server::wait`] | stops everything in order |

mod accept;
mod connection;
mod digester;
pub mod frames;
mod lock;
mod nearness;
mod preparer;
mod service;

pub use lock::{LockError, StoreLock, holder_of};
pub use service::{Answer, Attached, Service};

use accept::Acceptors;
use digester::Digester;
use preparer::Preparer;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// Connections that may wait for [`Server::start`] while the store recovers.
const BACKLOG: i32 = 256;
/// How long `cuesta stop` may take to read its answer before the daemon leaves anyway.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long connections may take to be done with what they are at, when the store was left already.
const LETTING_GO: Duration = Duration::from_secs(5);

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
    socket: Arc<OwnedFd>,
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
        // The mode of the socket file follows the descriptor's mode at bind: nobody else can slip in between.
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

/// Why the daemon stops.
#[derive(Debug)]
pub enum StopReason {
    /// `cuesta stop`.
    Asked(Farewell),
    /// A signal.
    Signal(i32),
    /// The store failed: nothing can be digested until it is opened anew.
    Failed(String),
    /// The store's folder was removed.
    Removed,
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StopReason::Asked(_) => f.write_str("cuesta stop"),
            StopReason::Signal(signal) => write!(f, "signal {signal}"),
            StopReason::Failed(why) => write!(f, "the store failed: {why}"),
            StopReason::Removed => f.write_str("the store was removed"),
        }
    }
}

/// The last words between the daemon and the connection of `cuesta stop`.
#[derive(Debug)]
pub struct Farewell {
    digested: Sender<()>,
    answered: Receiver<()>,
}

/// How the outside asks the daemon to stop.
pub type StopSender = Sender<StopReason>;

/// The running daemon.
#[derive(Debug)]
pub struct Server<S: Service> {
    service: Arc<S>,
    listener: Listener,
    digester: Digester,
    preparer: Preparer,
    acceptors: Arc<Acceptors>,
    stop: Receiver<StopReason>,
    stop_sender: StopSender,
}

impl<S: Service> Server<S> {
    /// Starts to answer.
    pub fn start(service: Arc<S>, listener: Listener) -> std::io::Result<Server<S>> {
        let (stop_sender, stop) = mpsc::channel();
        let preparer = Preparer::start(Arc::clone(&service))?;
        let digester = Digester::start(Arc::clone(&service), preparer.handle(), stop_sender.clone())?;
        for (session, process) in service.awaited() {
            digester.handle().watch(session, process.try_clone()?)?;
        }
        let acceptors = accept::start(
            Arc::clone(&listener.socket),
            Arc::clone(&service),
            digester.handle(),
            preparer.handle(),
            stop_sender.clone(),
        )?;
        Ok(Server { service, listener, digester, preparer, acceptors, stop, stop_sender })
    }

    /// For whoever may stop the daemon.
    #[must_use]
    pub fn stop_sender(&self) -> StopSender {
        self.stop_sender.clone()
    }

    /// Serves until somebody asks it to stop; then digests what every log holds, closes the store, hangs up and returns.
    pub fn wait(self) -> StopReason {
        let reason = self.stop.recv().unwrap_or(StopReason::Signal(0));
        tracing::info!(%reason, "stopping");
        // Whoever connects from now on is turned away, and whoever waits for connections wakes up.
        let _ = rustix::net::shutdown(&self.listener.socket, rustix::net::Shutdown::Both);
        self.acceptors.wait();
        self.preparer.stop();
        self.digester.stop();
        if let Err(error) = self.service.stop() {
            tracing::error!(%error, "not everything was digested: the next start will");
        }
        self.service.leave();
        if let StopReason::Asked(farewell) = &reason
            && farewell.digested.send(()).is_ok()
        {
            // Whether it was answered in time or not, we leave.
            let _ = farewell.answered.recv_timeout(FAREWELL);
        }
        // Whoever else asks it to stop is answered: it has.
        drop(self.stop);
        if !self.acceptors.hang_up(LETTING_GO) {
            tracing::warn!("some connections are still at work: what they do counts no more");
        }
        tracing::info!("stopped");
        reason
    }
}

#[cfg(test)]
mod tests;
