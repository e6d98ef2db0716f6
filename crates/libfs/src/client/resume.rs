//! Resuming with the next daemon, after the daemon of this session is gone (docs/design/restarts.md).
//!
//! The next daemon of the store recovers every log. It keeps the session of each process that lives, with its
//! log, its number and its open files, but without a lease. The page that counts daemons
//! ([`crate::session::control::Incarnation`]) voids what sessions do from the moment the daemon begins to
//! recover. So the end of a daemon is a fence of everything at once. The thread that notices it connects
//! again, asks for the session, maps the new control pages in place of the old ones, and resynchronises as
//! after any fence.
//!
//! Without a daemon, operations that need none go on. An operation that needs one waits for the next, up to a
//! limit. A door that can start a daemon says how ([`Client::start_daemons_by`]).

use crate::client::client::Client;
use crate::client::retries::{DAEMON_TRIES, Retries};
use crate::errno::{Error, unexpected};
use crate::session::patience::{RESUME_WAIT, patiently};
use crate::sync::Ordering;
use cuesta_format::InodeNumber;
use cuesta_format::wire::{PROTOCOL_VERSION, Request, Response, Welcome};
use rustix::fd::OwnedFd;
use std::time::Duration;

/// The reason for giving up a question over which daemon after daemon ends.
const DAEMONS_LOST: &str = "the daemon is gone again each time before it answers";

impl Client {
    /// Sets the function that starts a daemon. A call that needs a daemon runs it if none listens, one thread
    /// at a time. The function must not use this client, because the client's operations wait meanwhile.
    pub fn start_daemons_by(&self, start: impl Fn() -> bool + Send + Sync + 'static) {
        // The first setting stays: a process has one door.
        let _ = self.starter.0.set(Box::new(start));
    }

    /// Starts a daemon if none listens, in a process that starts daemons. Says whether one listens now.
    pub fn start_daemon(&self) -> bool {
        self.starter.0.get().is_some_and(|start| start())
    }

    /// Runs `ask`, and again with the next daemon each time the daemon goes away.
    pub(crate) fn with_daemon<T>(&self, mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let mut retries = Retries::new(DAEMON_TRIES);
        loop {
            let connection = self.connection();
            match ask() {
                Err(Error::Disconnected) => self.resume(connection)?,
                answer => return answer,
            }
            self.retry(&mut retries, DAEMONS_LOST)?;
        }
    }

    /// The number of the daemon that the session talks to, counted from its first.
    pub(crate) fn connection(&self) -> u32 {
        self.connection.load(Ordering::Acquire)
    }

    /// Resumes with the next daemon. `connection` is the connection that was lost; if another thread has
    /// resumed since, there is nothing to do. Call without any lock that an operation takes.
    pub(crate) fn resume(&self, connection: u32) -> Result<(), Error> {
        let mut patience = self.patience.lock();
        if self.connection() != connection {
            return Ok(());
        }
        self.check_alive()?;
        let mut retries = Retries::new(DAEMON_TRIES);
        loop {
            let (welcome, descriptors) = self.reconnect(&mut patience)?;
            let closed = self.gate.write();
            self.session.continue_with(&welcome, descriptors)?;
            self.connection.fetch_add(1, Ordering::Release);
            self.fences.lock().resume();
            match self.keep_in_kernel_again().and_then(|()| self.resync_closed()) {
                // The next iteration follows the next daemon, too.
                Err(Error::Disconnected) => {}
                resynced => return resynced,
            }
            drop(closed);
            self.retry_silently(&mut retries, DAEMONS_LOST)?;
        }
    }

    /// Waits until a daemon answers, and has it take the session up. After one wait in vain, later calls ask
    /// only once.
    fn reconnect(&self, patience: &mut Duration) -> Result<(Welcome, Vec<OwnedFd>), Error> {
        let request = Request::Attach {
            version: PROTOCOL_VERSION,
            pid: rustix::process::getpid().as_raw_pid().unsigned_abs(),
            program: self.program.to_string(),
            first: InodeNumber::NONE,
            resume: self.session.welcome.session,
            durability: self.session.wish,
        };
        let try_once = || {
            let mut descriptors = Vec::new();
            match self.session.requests.reconnect(&request, &mut descriptors, &self.session)? {
                Some(Response::Attached(welcome)) => Ok(Some((welcome, descriptors))),
                Some(other) => Err(unexpected(&other)),
                None => Ok(None),
            }
        };
        let connected = patiently(*patience, || match try_once() {
            Err(Error::Disconnected) if self.start_daemon() => try_once(),
            connected => connected,
        });
        *patience = if connected.is_ok() { RESUME_WAIT } else { Duration::ZERO };
        connected?.ok_or(Error::Disconnected)
    }
}
