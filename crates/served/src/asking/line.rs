//! The line: the connection to the daemon of the moment, and what is known of that daemon.
//!
//! The line sends and receives. Which calls it sends, and what happens when the daemon goes away, is in `calls.rs`.

use crate::protocol::call::Numbering;
use crate::protocol::frames::Frames;
use crate::protocol::messages::{Request, Response, VERSION};
use crate::ring::CALLS_BEFORE_RING;
use crate::ring::client::{Begun, Socket, Started};
use cuesta_format::StoreId;
use cuesta_libfs::{Error, RESUME_WAIT};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::time::{Duration, Instant};

/// The way to the daemon there is.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) frames: Frames,
    /// How long the client waits for the next daemon. After one wait in vain it asks only once from then on.
    pub(super) patience: Duration,
    /// Calls until a ring is asked for; 0: it was.
    pub(super) calls_before_ring: u32,
    /// The daemon that is asked now does not have all the files that were open when it was first asked.
    pub(super) has_lost_files: bool,
    /// Another daemon was asked before this one.
    pub(super) is_next: bool,
    pub(super) numbering: Numbering,
}

impl Line {
    pub(crate) fn new(frames: Frames, numbering: Numbering) -> Line {
        Line {
            frames,
            patience: RESUME_WAIT,
            calls_before_ring: CALLS_BEFORE_RING,
            has_lost_files: false,
            is_next: false,
            numbering,
        }
    }
}

/// A call's state after a daemon went away while it asked.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    pub(super) has_lost_files: bool,
    pub(super) since: Option<Instant>,
    /// A daemon may have executed the call, which is asked again as the same call of the same slot.
    pub(super) begun: Option<Begun>,
}

impl Socket for Mutex<Line> {
    fn start(&self, lane: usize) -> Started {
        let Some(mut line) = self.try_lock() else { return Started::NotNow };
        let request = Request::Lane { lane: lane as u32 };
        let answer = line.frames.send(&request, None).and_then(|()| line.frames.receive_answer());
        match answer {
            Ok((Response::Done, _)) => Started::Yes,
            _ => Started::No,
        }
    }

    fn has_hung_up(&self) -> bool {
        let Some(line) = self.try_lock() else { return false };
        let mut socket = [PollFd::new(&line.frames.socket, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut socket, Some(&now)), Ok(1..))
    }

    fn tell_unheard(&self) {
        let Some(mut line) = self.try_lock() else { return };
        // If the daemon is gone the next look at the socket shows it.
        let _ = line.frames.send(&Request::Unheard, None).and_then(|()| line.frames.receive_answer());
    }
}

/// Connects, and says which protocol is spoken.
pub(crate) fn greet(path: &[u8], descriptor_floor: i32) -> Result<(Frames, StoreId), Error> {
    let socket = connect(path, descriptor_floor).map_err(|errno| match errno {
        Errno::ACCESS | Errno::PERM => Error::Denied,
        _ => Error::Disconnected,
    })?;
    let mut frames = Frames::new(socket);
    frames.send(&Request::Hello { version: VERSION }, None)?;
    // A daemon of another version answers so that every version understands it.
    match frames.receive::<Response>()?.0 {
        Response::Welcome { store } => Ok((frames, store)),
        Response::Failed(error) => Err(error),
        _ => Err(unexpected()),
    }
}

fn connect(path: &[u8], descriptor_floor: i32) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let socket = lift(socket, descriptor_floor);
    loop {
        match rustix::net::connect(&socket, &address) {
            Err(Errno::INTR) => {}
            connected => return connected.map(|()| socket),
        }
    }
}

/// Moves a descriptor out of the application's way; where its limit leaves no room above, it stays in the way.
pub(super) fn lift(file: OwnedFd, floor: i32) -> OwnedFd {
    if floor == 0 {
        return file;
    }
    rustix::io::fcntl_dupfd_cloexec(file.as_fd(), floor).unwrap_or(file)
}

/// The error of an answer that does not fit the request.
pub(crate) fn unexpected() -> Error {
    Error::Daemon("the answer does not fit the request".into())
}
