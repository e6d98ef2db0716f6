//! Threads that accept connections, and then serve them.
//!
//! A program that does little connects, asks for one or two calls and ends, and the next one does the same. A thread made for each, and a
//! thread to hand it over, would cost more than its calls. So each thread accepts for itself, serves, and accepts again. One that is the
//! last to wait makes another before it serves.

use crate::answering::serving;
use crate::answering::shared::Shared;
use crate::shares::accounts::Holder;
use crate::shares::complaints::Complaint;
use crate::shares::resource::Resource;
use parking_lot::{Condvar, Mutex};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

/// Address space of a connection's stack. A page of it takes memory once the thread has touched it.
const STACK_BYTES: usize = 512 << 10;
/// Threads that wait for a connection; one that comes back to more ends.
const WAITING_MAX: usize = 4;
/// How long to wait before accepting again when descriptors or threads have run out.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// Complaints about no particular user are told as this one's, which is no user's number.
const DAEMON: u32 = u32::MAX;

/// The threads that wait for connections.
#[derive(Debug, Default)]
pub(super) struct Acceptors {
    waiting: Mutex<Waiting>,
    all_gone: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    threads: usize,
    /// The socket was shut down.
    is_closed: bool,
}

/// What each of them needs.
#[derive(Clone)]
struct Acceptor {
    acceptors: Arc<Acceptors>,
    shared: Arc<Shared>,
    socket: Arc<OwnedFd>,
}

/// Accepts connections until the socket is shut down.
pub(super) fn start(shared: Arc<Shared>, socket: Arc<OwnedFd>) -> io::Result<Arc<Acceptors>> {
    let acceptors = Arc::<Acceptors>::default();
    Acceptor { acceptors: Arc::clone(&acceptors), shared, socket }.spawn()?;
    Ok(acceptors)
}

impl Acceptors {
    /// Waits until the last one has seen that the socket was shut down: no new client is served from then on.
    pub(super) fn wait(&self) {
        let mut waiting = self.waiting.lock();
        while waiting.threads > 0 || !waiting.is_closed {
            self.all_gone.wait(&mut waiting);
        }
    }

    /// Counts a thread that is to wait, unless there are enough or it is over.
    fn enter(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let is_welcome = !waiting.is_closed && waiting.threads < WAITING_MAX;
        waiting.threads += usize::from(is_welcome);
        is_welcome
    }

    /// One waits no longer; how many still do.
    fn leave(&self, is_closed: bool) -> usize {
        let mut waiting = self.waiting.lock();
        waiting.threads -= 1;
        waiting.is_closed |= is_closed;
        if waiting.threads == 0 && waiting.is_closed {
            self.all_gone.notify_all();
        }
        waiting.threads
    }
}

impl Acceptor {
    /// Starts a thread that waits for a connection.
    fn spawn(self) -> io::Result<()> {
        if !self.acceptors.enter() {
            return Ok(());
        }
        let acceptors = Arc::clone(&self.acceptors);
        let thread = Builder::new().name("user".into()).stack_size(STACK_BYTES);
        let spawned = thread.spawn(move || self.run());
        spawned.map(drop).inspect_err(|_| {
            acceptors.leave(false);
        })
    }

    /// Counted as waiting from the start.
    fn run(self) {
        while let Some(socket) = self.accept() {
            self.serve(socket);
            if !self.acceptors.enter() {
                return;
            }
        }
    }

    fn serve(&self, socket: OwnedFd) {
        let shared = &self.shared;
        let Some(who) = serving::who(&socket) else { return };
        let holder = Holder::of(&who);
        let take = |resource| shared.files.accounts().take(holder, resource, 1);
        // They go last, however the connection ends.
        let (Some(_connection), Some(_descriptor)) =
            (take(Resource::Connections), take(Resource::Descriptors))
        else {
            if let Some(left_out) = shared.complaints.is_told(Complaint::Connections, who.uid) {
                tracing::warn!(user = who.uid, left_out, "too many connections: one is closed");
            }
            return;
        };
        serving::serve(socket, who, shared);
    }

    /// The next connection; `None` once the socket was shut down. Not counted any more.
    fn accept(&self) -> Option<OwnedFd> {
        loop {
            match rustix::net::accept_with(&*self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    if self.acceptors.leave(false) > 0 {
                        return Some(socket);
                    }
                    let Err(error) = self.clone().spawn() else { return Some(socket) };
                    drop(socket);
                    self.complain("no thread for a connection: it is closed", &error);
                    if !self.acceptors.enter() {
                        return None;
                    }
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // What Linux answers once the listening socket was shut down.
                Err(Errno::INVAL) => {
                    self.acceptors.leave(true);
                    return None;
                }
                Err(error) => self.complain("cannot accept a connection of another user", &error.into()),
            }
        }
    }

    /// Tells that descriptors or threads have run out, and waits for some.
    fn complain(&self, what: &str, error: &io::Error) {
        if let Some(left_out) = self.shared.complaints.is_told(Complaint::Service, DAEMON) {
            tracing::error!(%error, left_out, "{what}");
        }
        std::thread::sleep(EXHAUSTED_PAUSE);
    }
}
