//! Threads that accept connections, and then serve them.
//!
//! A program that works on the store connects, asks a few questions and ends, and the next one does the same. A
//! thread made for each, and a thread to hand it over, would cost more than its questions. So each thread accepts
//! for itself, serves, and accepts again. One that is the last to wait makes another before it serves.

use super::connection::{self, Behind};
use super::digester::DigesterHandle;
use super::nearness::Neighbours;
use super::preparer::PreparerHandle;
use super::service::Service;
use super::stopping::StopSender;
use parking_lot::{Condvar, Mutex};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Address space of a connection's stack. A page of it takes memory once the thread has touched it.
const CONNECTION_STACK_BYTES: usize = 512 << 10;
/// Threads that wait for a connection; one that comes back to more ends.
const WAITING_MAX: usize = 4;
/// How long to wait before accepting again when descriptors or threads have run out.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// The threads that wait for connections.
#[derive(Debug)]
pub(super) struct Acceptors {
    waiting: Mutex<Waiting>,
    all_gone: Condvar,
    neighbours: Neighbours,
    serving: Mutex<Serving>,
    all_let_go: Condvar,
}

/// Connections, and the threads that serve them.
#[derive(Debug, Default)]
struct Serving {
    /// Threads that have the service, waiting or not.
    threads: usize,
    sockets: HashMap<RawFd, Weak<OwnedFd>>,
    /// Connections that are accepted still are hung up on.
    is_over: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    threads: usize,
    /// The socket was shut down.
    closed: bool,
}

/// What each of them needs.
#[derive(Debug)]
struct Acceptor<S: Service> {
    acceptors: Arc<Acceptors>,
    socket: Arc<OwnedFd>,
    service: Arc<S>,
    digester: DigesterHandle,
    preparer: PreparerHandle,
    stop: StopSender,
}

/// Accepts connections until the socket is shut down.
pub(super) fn start<S: Service>(
    socket: Arc<OwnedFd>,
    service: Arc<S>,
    digester: DigesterHandle,
    preparer: PreparerHandle,
    stop: StopSender,
) -> io::Result<Arc<Acceptors>> {
    let acceptors = Arc::new(Acceptors {
        waiting: Mutex::new(Waiting::default()),
        all_gone: Condvar::new(),
        neighbours: Neighbours::default(),
        serving: Mutex::default(),
        all_let_go: Condvar::new(),
    });
    Acceptor { acceptors: Arc::clone(&acceptors), socket, service, digester, preparer, stop }.spawn()?;
    Ok(acceptors)
}

impl Acceptors {
    /// Waits until the last one has seen that the socket was shut down: no new client is served from then on.
    pub(super) fn wait(&self) {
        let mut waiting = self.waiting.lock();
        while waiting.threads > 0 || !waiting.closed {
            self.all_gone.wait(&mut waiting);
        }
    }

    /// Hangs up on all clients, once no new one is served, and waits until every thread let the service go, but
    /// no longer than `limit`. Says whether all did.
    pub(super) fn hang_up(&self, limit: Duration) -> bool {
        let mut serving = self.serving.lock();
        serving.is_over = true;
        serving.sockets.values().filter_map(Weak::upgrade).for_each(|socket| shut_down(&socket));
        let until = Instant::now() + limit;
        while serving.threads > 0 {
            if self.all_let_go.wait_until(&mut serving, until).timed_out() {
                return serving.threads == 0;
            }
        }
        true
    }

    /// Counts a thread that is to wait, unless there are enough or it is over.
    fn enter(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let is_welcome = !waiting.closed && waiting.threads < WAITING_MAX;
        waiting.threads += usize::from(is_welcome);
        is_welcome
    }

    /// One waits no longer; how many still do.
    fn leave(&self, closed: bool) -> usize {
        let mut waiting = self.waiting.lock();
        waiting.threads -= 1;
        waiting.closed |= closed;
        if waiting.threads == 0 && waiting.closed {
            self.all_gone.notify_all();
        }
        waiting.threads
    }
}

/// A thread that has the service.
struct Holds(Arc<Acceptors>);

impl Holds {
    fn new(acceptors: &Arc<Acceptors>) -> Holds {
        acceptors.serving.lock().threads += 1;
        Holds(Arc::clone(acceptors))
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        let mut serving = self.0.serving.lock();
        serving.threads -= 1;
        if serving.threads == 0 {
            self.0.all_let_go.notify_all();
        }
    }
}

fn shut_down(socket: &OwnedFd) {
    // A failure means that the other end was first.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

/// A connection that may be hung up on.
struct Served<'a> {
    acceptors: &'a Acceptors,
    number: RawFd,
}

impl Served<'_> {
    fn new<'a>(acceptors: &'a Acceptors, socket: &Arc<OwnedFd>) -> Served<'a> {
        let number = socket.as_raw_fd();
        let mut serving = acceptors.serving.lock();
        serving.sockets.insert(number, Arc::downgrade(socket));
        if serving.is_over {
            shut_down(socket);
        }
        drop(serving);
        Served { acceptors, number }
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let mut serving = self.acceptors.serving.lock();
        // The number may be another connection's by now.
        if serving.sockets.get(&self.number).is_some_and(|socket| socket.strong_count() == 0) {
            serving.sockets.remove(&self.number);
        }
    }
}

impl<S: Service> Clone for Acceptor<S> {
    fn clone(&self) -> Self {
        Acceptor {
            acceptors: Arc::clone(&self.acceptors),
            socket: Arc::clone(&self.socket),
            service: Arc::clone(&self.service),
            digester: self.digester.clone(),
            preparer: self.preparer.clone(),
            stop: self.stop.clone(),
        }
    }
}

impl<S: Service> Acceptor<S> {
    /// Starts a thread that waits for a connection.
    fn spawn(self) -> io::Result<()> {
        if !self.acceptors.enter() {
            return Ok(());
        }
        let acceptors = Arc::clone(&self.acceptors);
        let holds = Holds::new(&acceptors);
        let thread = Builder::new().name("connection".into()).stack_size(CONNECTION_STACK_BYTES);
        let spawned = thread.spawn(move || {
            // Goes last, however this ends.
            let _holds = holds;
            self.run();
        });
        spawned.map(drop).inspect_err(|_| {
            acceptors.leave(false);
        })
    }

    /// Counted as waiting from the start.
    fn run(self) {
        while let Some(socket) = self.accept() {
            let to = Behind {
                service: self.service.as_ref(),
                digester: &self.digester,
                preparer: &self.preparer,
                stop: &self.stop,
                neighbours: &self.acceptors.neighbours,
            };
            let socket = Arc::new(socket);
            let _served = Served::new(&self.acceptors, &socket);
            connection::serve(socket, to);
            if !self.acceptors.enter() {
                return;
            }
        }
    }

    /// The next connection; `None` once the socket was shut down. Not counted any more.
    fn accept(&self) -> Option<OwnedFd> {
        loop {
            match rustix::net::accept_with(&*self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    if self.acceptors.leave(false) == 0
                        && let Err(error) = self.clone().spawn()
                    {
                        tracing::error!(%error, "no thread for a connection: it is closed");
                        drop(socket);
                        std::thread::sleep(EXHAUSTED_PAUSE);
                        if self.acceptors.enter() {
                            continue;
                        }
                        return None;
                    }
                    return Some(socket);
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // What Linux answers once the listening socket was shut down.
                Err(Errno::INVAL) => {
                    self.acceptors.leave(true);
                    return None;
                }
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection");
                    std::thread::sleep(EXHAUSTED_PAUSE);
                }
            }
        }
    }
}
