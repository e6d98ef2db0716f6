//! Going on with the next daemon, when the one the session had is gone (DESIGN §3.6).
//!
//! The store's next daemon recovers every log, and keeps the sessions of processes that live, each with its log, its
//! number and what it has open, but without a lease: the page that counts daemons ([`crate::control::Incarnation`]) has
//! voided what they do from the moment it began to recover. So a daemon's end is a fence of everything at once. Whoever
//! meets it connects anew and asks for the session, maps the control pages it gets in the place of the old ones, with all
//! they said, and resynchronises as after any fence.
//!
//! While there is no daemon, operations that need none go on; one that does waits for the next, up to a limit. Who can start
//! one says how ([`Client::start_daemons_by`]).

use crate::attempts::{Attempts, DAEMONS};
use crate::client::Client;
use crate::errno::Error;
use crate::session::unexpected;
use crate::sync::Ordering;
use cuesta_format::InodeNumber;
use cuesta_format::wire::{PROTOCOL_VERSION, Request, Response, Welcome};
use rustix::fd::OwnedFd;
use rustix::thread::{Timespec, nanosleep};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a call waits for the next daemon: a service manager, or an upgrade, takes a few seconds.
pub const RESUME_WAIT: Duration = Duration::from_secs(30);
/// How long to wait before looking again: at first, and after many times.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// How the next daemon is started, if it is from here. Says whether there is one now.
#[derive(Default)]
pub(crate) struct Starter(OnceLock<Box<dyn Fn() -> bool + Send + Sync>>);

impl std::fmt::Debug for Starter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Starter").field(&self.0.get().is_some()).finish()
    }
}

/// Why a question is given up that daemons do not outlive.
const NO_ANSWER: &str = "the daemon is gone again each time before it answers";

/// Tries `connect` until somebody listens, for so long.
pub fn patiently<T>(patience: Duration, mut connect: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let (began, mut pause) = (Instant::now(), PAUSE_MIN);
    loop {
        match connect() {
            Err(Error::Disconnected) if began.elapsed() < patience => {}
            connected => return connected,
        }
        // The standard library's way is a cancellation point.
        let _ = nanosleep(&Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() });
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

impl Client {
    /// Has `start` called whenever a call needs a daemon and nobody listens, by one thread at a time. It must not come by way of
    /// this client, operations of which wait meanwhile.
    pub fn start_daemons_by(&self, start: impl Fn() -> bool + Send + Sync + 'static) {
        // Whoever came first stays: there is one door.
        let _ = self.starter.0.set(Box::new(start));
    }

    /// Does `ask` again with the next daemon, as long as the one it asks goes away.
    pub(crate) fn asking<T>(&self, mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let mut attempts = Attempts::new(DAEMONS);
        loop {
            let connection = self.connection();
            match ask() {
                Err(Error::Disconnected) => self.resume(connection)?,
                answer => return answer,
            }
            self.again(&mut attempts, NO_ANSWER)?;
        }
    }

    /// Which daemon it talks to, counted from its first one.
    pub(crate) fn connection(&self) -> u32 {
        self.connection.load(Ordering::Acquire)
    }

    /// Goes on with the next daemon, unless it does by now: `connection` is the one that was lost. Call without anything
    /// that an operation holds.
    pub(crate) fn resume(&self, connection: u32) -> Result<(), Error> {
        let mut patience = self.patience.lock();
        if self.connection() != connection {
            return Ok(());
        }
        self.check_alive()?;
        let mut attempts = Attempts::new(DAEMONS);
        loop {
            let (welcome, descriptors) = self.reconnect(&mut patience)?;
            let closed = self.gate.write();
            self.session.go_on(&welcome, descriptors)?;
            self.connection.fetch_add(1, Ordering::Release);
            self.fences.lock().resume();
            match self.keep_in_kernel_again().and_then(|()| self.resync_closed()) {
                // Another one follows that, too.
                Err(Error::Disconnected) => {}
                resynced => return resynced,
            }
            drop(closed);
            self.again_untold(&mut attempts, NO_ANSWER)?;
        }
    }

    /// Waits until a daemon answers, and has it take the session up. Who waited in vain once asks only once from then on.
    fn reconnect(&self, patience: &mut Duration) -> Result<(Welcome, Vec<OwnedFd>), Error> {
        let request = Request::Attach {
            version: PROTOCOL_VERSION,
            pid: rustix::process::getpid().as_raw_pid().unsigned_abs(),
            program: self.program.to_string(),
            first: InodeNumber::NONE,
            resume: self.session.welcome.session,
        };
        let try_once = || {
            let mut descriptors = Vec::new();
            match self.session.asking.reconnect(&request, &mut descriptors, &self.session)? {
                Some(Response::Attached(welcome)) => Ok(Some((welcome, descriptors))),
                Some(other) => Err(unexpected(&other)),
                None => Ok(None),
            }
        };
        let is_started = || self.starter.0.get().is_some_and(|start| start());
        let connected = patiently(*patience, || match try_once() {
            Err(Error::Disconnected) if is_started() => try_once(),
            connected => connected,
        });
        *patience = if connected.is_ok() { RESUME_WAIT } else { Duration::ZERO };
        connected?.ok_or(Error::Disconnected)
    }
}
