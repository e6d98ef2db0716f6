//! Messages over a stream socket, each in turn with the other side's; one descriptor may lie beside one.
//!
//! The socket is used by its raw system calls: libc's wrappers are intercepted in the processes this runs in.
//!
//! The daemon's end is bounded ([`Bounds`]): a message that has begun must arrive in time, an answer must be taken in time, and
//! the memory of both counts for the user at the other end before it is touched.

use crate::protocol::messages::{Answered, FRAME_BYTES_MAX, Response};
use crate::shares::accounts::{Accounts, Holder, Share};
use crate::shares::limits::UNCOUNTED_BYTES;
use crate::shares::resource::Resource;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes asked of the socket before it is known how many there are: most messages are shorter.
const RECEIVE_BYTES: usize = 8 << 10;
/// Memory grows by so much as bytes arrive: an announced length alone takes none.
const STEP_BYTES: usize = 1 << 20;
/// A larger buffer is given back after its message.
const KEPT_BYTES: usize = 128 << 10;
const HEAD_BYTES: usize = 4;

/// Why a message did not come or go.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the connection has ended: {0}")]
    Ended(Errno),
    #[error("what came is no message")]
    Malformed,
    #[error("a message did not arrive, or an answer was not taken, in time")]
    Late,
}

/// The accounts, and the user that messages count for.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) holder: Holder,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Frames<S = OwnedFd> {
    pub(crate) socket: S,
    buffer: Vec<u8>,
    bounds: Option<Bounds>,
    /// The memory of the message, until the next one is received.
    share: Option<Share>,
    has_received: bool,
    /// A descriptor was sent with the last message.
    has_sent_descriptor: bool,
}

impl<S: AsFd> Frames<S> {
    pub(crate) fn new(socket: S) -> Frames<S> {
        Frames {
            socket,
            buffer: Vec::new(),
            bounds: None,
            share: None,
            has_received: false,
            has_sent_descriptor: false,
        }
    }

    /// The daemon's end.
    pub(crate) fn bounded(socket: S, bounds: Bounds) -> Frames<S> {
        Frames { bounds: Some(bounds), ..Frames::new(socket) }
    }

    fn count(&mut self, bytes: usize, deadline: Instant) -> Result<(), FrameError> {
        let Some(Bounds { accounts, holder }) = &self.bounds else { return Ok(()) };
        if bytes <= UNCOUNTED_BYTES {
            return Ok(());
        }
        let share = accounts.wait_for(*holder, Resource::MessageBytes, bytes as u64, deadline);
        self.share = Some(share.ok_or(FrameError::Late)?);
        Ok(())
    }

    fn half_message(&self) -> Duration {
        self.bounds.as_ref().map_or(Duration::MAX, |bounds| bounds.accounts.limits().half_message)
    }

    /// Sends a message, with a descriptor.
    pub(crate) fn send<M: Serialize>(
        &mut self,
        message: &M,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), FrameError> {
        let mut frame = std::mem::take(&mut self.buffer);
        frame.clear();
        frame.extend_from_slice(&[0; HEAD_BYTES]);
        let mut frame = postcard::to_extend(message, frame).map_err(|_| FrameError::Malformed)?;
        let length = frame.len() - HEAD_BYTES;
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::Malformed);
        }
        frame[..HEAD_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
        self.has_sent_descriptor = descriptor.is_some();
        let sent = self.send_all(&frame, descriptor);
        self.keep(frame);
        sent
    }

    fn send_all(&self, frame: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<(), FrameError> {
        let mut rest = frame;
        let mut beside = descriptor;
        let deadline = self.bounds.as_ref().map(|_| Instant::now() + self.half_message());
        let flags =
            if deadline.is_some() { SendFlags::NOSIGNAL | SendFlags::DONTWAIT } else { SendFlags::NOSIGNAL };
        while !rest.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let borrowed = beside.map(|file| [file]);
            if let Some(borrowed) = &borrowed {
                control.push(SendAncillaryMessage::ScmRights(borrowed));
            }
            match sendmsg(&self.socket, &[IoSlice::new(rest)], &mut control, flags) {
                Ok(sent) => {
                    rest = rest.get(sent..).unwrap_or_default();
                    beside = None;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if deadline.is_some() => self.wait(PollFlags::OUT, deadline)?,
                Err(errno) => return Err(FrameError::Ended(errno)),
            }
        }
        Ok(())
    }

    /// Waits until the socket is ready, but no longer than `deadline`.
    fn wait(&self, ready: PollFlags, deadline: Option<Instant>) -> Result<(), FrameError> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(&self.socket, ready)], left.as_ref()) {
                Ok(0) => return Err(FrameError::Late),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(FrameError::Ended(errno)),
            }
        }
    }

    /// Whether the other end has not taken all that was sent to it.
    fn is_untaken(&self) -> bool {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the kernel writes one number.
        let asked = unsafe { libc::ioctl(self.socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        asked == 0 && bytes > 0
    }

    /// Waits for a message and hands it to `take`, with the descriptor that came beside it.
    pub(crate) fn receive<'b, M: Deserialize<'b>>(&'b mut self) -> Result<(M, Option<OwnedFd>), FrameError> {
        let kept_max = if self.bounds.is_some() { UNCOUNTED_BYTES } else { KEPT_BYTES };
        if self.buffer.capacity() > kept_max {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        self.share = None;
        let mut descriptor = None;
        let mut wanted = HEAD_BYTES;
        let mut deadline = None;
        if let Some(bounds) = self.bounds.as_ref().filter(|_| !self.has_received) {
            self.wait(PollFlags::IN, Some(Instant::now() + bounds.accounts.limits().greeting))?;
        }
        while self.buffer.len() < wanted {
            let have = self.buffer.len();
            if have > 0 && deadline.is_some() {
                self.wait(PollFlags::IN, deadline)?;
            }
            let room = RECEIVE_BYTES.max((wanted - have).min(STEP_BYTES));
            self.buffer.resize(have + room, 0);
            let got = receive_some(&self.socket, &mut self.buffer[have..], &mut descriptor);
            self.buffer.truncate(have + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => return Err(FrameError::Ended(Errno::CONNRESET)),
                Ok(_) => {}
                Err(errno) => return Err(FrameError::Ended(errno)),
            }
            if have == 0 && self.bounds.is_some() {
                deadline = Some(Instant::now() + self.half_message());
            }
            if let Some(head) = self.buffer.first_chunk::<HEAD_BYTES>() {
                let length = u32::from_le_bytes(*head) as usize;
                if length > FRAME_BYTES_MAX {
                    return Err(FrameError::Malformed);
                }
                if let (true, Some(deadline)) = (wanted == HEAD_BYTES, deadline) {
                    // All of it at once: messages that each had a part would wait for each other.
                    self.count(length, deadline)?;
                }
                wanted = HEAD_BYTES + length;
            }
        }
        if self.buffer.len() > wanted {
            return Err(FrameError::Malformed);
        }
        // Descriptors on their way count for the daemon's user: those of one connection are one.
        if self.bounds.is_some() && self.has_sent_descriptor && self.is_untaken() {
            return Err(FrameError::Malformed);
        }
        self.has_received = true;
        let message = postcard::from_bytes(&self.buffer[HEAD_BYTES..]).map_err(|_| FrameError::Malformed)?;
        Ok((message, descriptor))
    }

    /// Waits for an answer, without its place in a log.
    pub(crate) fn receive_answer(&mut self) -> Result<(Response, Option<OwnedFd>), FrameError> {
        self.receive::<Answered>().map(|(answered, descriptor)| (answered.response, descriptor))
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() <= KEPT_BYTES {
            self.buffer = buffer;
        }
    }
}

/// Receives what there is; of several descriptors the last one stays.
fn receive_some(
    socket: impl AsFd,
    buffer: &mut [u8],
    descriptor: &mut Option<OwnedFd>,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(buffer)];
        match recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => {
                for part in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(files) = part {
                        *descriptor = files.last().or(descriptor.take());
                    }
                }
                return Ok(message.bytes);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

impl From<FrameError> for cuesta_libfs::Error {
    fn from(_: FrameError) -> Self {
        cuesta_libfs::Error::Disconnected
    }
}
