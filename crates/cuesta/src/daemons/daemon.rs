//! A connection to the daemon of a store, for commands.

use crate::messages::failure::{Failure, NOT_RUNNING};
use crate::stores::holder;
use crate::stores::store::Store;
use cuesta_format::InodeNumber;
use cuesta_format::wire::{PROTOCOL_VERSION, Question, Request, Response, WireError};
use cuesta_sharedfs::server::frames::{FrameError, Frames};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long a living daemon may be without a socket: one that was removed it puts back after two seconds, and later on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// A connection that has no session.
#[derive(Debug)]
pub struct Daemon {
    frames: Frames,
    store: Store,
}

impl Daemon {
    /// Connects; `None` if no daemon serves the store.
    pub fn connect(store: &Store) -> Result<Option<Daemon>, Failure> {
        let fail = |errno: Errno| Failure::on(&store.socket(), errno);
        let address = SocketAddrUnix::new(store.socket()).map_err(fail)?;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .map_err(fail)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => Ok(Some(Daemon { frames: Frames::new(socket), store: store.clone() })),
            Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
            Err(Errno::ACCESS) => Err(Failure::on(store.folder(), "this store belongs to another user")),
            Err(errno) => Err(fail(errno)),
        }
    }

    /// Connects to a daemon that must be there.
    pub fn expect(store: &Store) -> Result<Daemon, Failure> {
        let began = Instant::now();
        while let Some(holder) =
            holder::daemon_of(store).ok().flatten().filter(|_| began.elapsed() < PATIENCE)
        {
            match Daemon::connect(store)? {
                Some(daemon) => return Ok(daemon),
                // It puts a socket back that was removed, or leaves.
                None => std::thread::sleep(PAUSE),
            }
            drop(holder);
        }
        Daemon::connect(store)?.ok_or_else(|| {
            Failure::on(
                store.folder(),
                "no daemon serves this store (cuesta serve, or cuesta run, starts one)",
            )
            .exiting(NOT_RUNNING)
        })
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, request: &Request) -> Result<Response, Failure> {
        self.exchange(request).map_err(|error| Failure::on(self.store.folder(), self.reason(&error)))
    }

    /// Whether it answers at all; a failure if it does in another version.
    pub fn answers(&mut self) -> Result<bool, Failure> {
        match self.exchange(&Request::Statfs { tree: InodeNumber::NONE }) {
            Ok(_) => Ok(true),
            Err(error @ FrameError::Malformed(WireError::Version(_))) => {
                Err(Failure::on(self.store.folder(), self.reason(&error)))
            }
            Err(_) => Ok(false),
        }
    }

    fn exchange(&mut self, request: &Request) -> Result<Response, FrameError> {
        self.frames.send(&Question { processor: None, request }, &[])?;
        self.frames.receive()
    }

    fn reason(&self, error: &FrameError) -> String {
        const STOP: &str =
            "stop it (cuesta stop; if it is mounted, cuesta unmount before), and start it again";
        match error {
            FrameError::Malformed(WireError::Version(daemon)) => {
                format!("the daemon speaks protocol {daemon}, and this cuesta {PROTOCOL_VERSION}: {STOP}")
            }
            // Before protocol 12 a daemon said nothing to what it could not read.
            FrameError::Closed if self.is_running() => {
                format!("the daemon speaks a protocol before 12, and this cuesta {PROTOCOL_VERSION}: {STOP}")
            }
            error => format!("the daemon went away: {error} (its log: {})", self.store.log().display()),
        }
    }

    /// Whether the daemon's process has not ended.
    fn is_running(&self) -> bool {
        let Ok(Some(process)) = self.process() else { return false };
        let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut ended, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }

    /// The daemon's process id.
    pub fn pid(&self) -> Option<u32> {
        let peer = rustix::net::sockopt::socket_peercred(self.frames.socket()).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    /// Waits until the daemon's process has ended.
    pub fn wait_for_end(self) -> Result<(), Failure> {
        match self.process()? {
            Some(process) => self.wait_for(&process),
            None => Ok(()),
        }
    }

    /// Has the daemon leave by SIGTERM, and waits until it has.
    pub fn terminate(self) -> Result<(), Failure> {
        let Some(process) = self.process()? else { return Ok(()) };
        match pidfd_send_signal(&process, Signal::TERM) {
            Ok(()) => self.wait_for(&process),
            Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(Failure::on(self.store.folder(), format!("cannot stop the daemon: {errno}"))),
        }
    }

    /// The daemon's process; `None` if it has ended.
    fn process(&self) -> Result<Option<OwnedFd>, Failure> {
        let found = rustix::net::sockopt::socket_peercred(self.frames.socket())
            .and_then(|credentials| pidfd_open(credentials.pid, PidfdFlags::empty()));
        match found {
            Ok(process) => Ok(Some(process)),
            Err(Errno::SRCH) => Ok(None),
            Err(errno) => Err(self.cannot_wait(errno)),
        }
    }

    fn cannot_wait(&self, errno: Errno) -> Failure {
        Failure::on(self.store.folder(), format!("cannot wait for the daemon: {errno}"))
    }

    fn wait_for(&self, process: &OwnedFd) -> Result<(), Failure> {
        let mut waiting = [rustix::event::PollFd::new(process, rustix::event::PollFlags::IN)];
        loop {
            match rustix::event::poll(&mut waiting, None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.cannot_wait(errno)),
            }
        }
    }

    /// The failure of an answer that does not fit the question.
    pub fn unexpected(&self, response: &Response) -> Failure {
        match response {
            Response::Failed(refusal) => Failure::on(self.store.folder(), refusal),
            _ => {
                Failure::on(self.store.folder(), "the daemon is of another version (restart it: cuesta stop)")
            }
        }
    }
}
