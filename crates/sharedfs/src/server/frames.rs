//! Frames over a stream socket, descriptors beside them. Both ends of the control socket that are not
//! LibFS use this: the daemon's connections and the command.

use cuesta_format::wire::{self, DESCRIPTORS_MAX, WireError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send, sendmsg,
};
use serde::{Serialize, de::DeserializeOwned};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A buffer larger than this is given back after its frame, so that an idle connection holds little memory.
const KEPT_BYTES: usize = 16 << 10;
/// Bytes before a frame's content.
const HEAD_BYTES: usize = 4;
/// Bytes asked of the socket at once, at first: most messages are shorter.
const RECEIVE_BYTES: usize = 4 << 10;

/// Why a frame did not come or go.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other end closed the connection between two frames.
    #[error("connection closed")]
    Closed,
    /// It closed it, or the connection broke, inside a frame.
    #[error("connection broken: {0}")]
    Broken(Errno),
    /// The bytes are no message.
    #[error(transparent)]
    Malformed(#[from] WireError),
    /// More descriptors than a message may carry.
    #[error("{0} descriptors do not fit a message")]
    Descriptors(usize),
}

/// One end of a connection.
#[derive(Debug)]
pub struct Frames {
    socket: Arc<OwnedFd>,
    /// To be sent.
    buffer: Vec<u8>,
    /// Bytes that have come and were not taken.
    come: Vec<u8>,
    /// The last descriptor that came.
    descriptor: Option<OwnedFd>,
}

impl Frames {
    /// Speaks over a connected stream socket.
    #[must_use]
    pub fn new(socket: impl Into<Arc<OwnedFd>>) -> Frames {
        Frames { socket: socket.into(), buffer: Vec::new(), come: Vec::new(), descriptor: None }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The descriptor that came with the last message, if one did.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }

    /// Waits for a message. One descriptor that comes with it is kept, for a caller that asks for it.
    pub fn receive<M: DeserializeOwned>(&mut self) -> Result<M, FrameError> {
        if self.come.is_empty() {
            self.wait()?;
        }
        // The frame behind the one before may have come along with it.
        let wanted = loop {
            let head = self.come.first_chunk().copied().map(wire::frame_length).transpose()?;
            match head.map(|length| HEAD_BYTES + length) {
                Some(wanted) if self.come.len() >= wanted => break wanted,
                _ => self.receive_some()?,
            }
        };
        let message = wire::decode(&self.come[HEAD_BYTES..wanted]);
        self.come.drain(..wanted);
        if self.come.is_empty() && self.come.capacity() > KEPT_BYTES {
            self.come = Vec::new();
        }
        Ok(message?)
    }

    /// Waits until something comes. A thread that waits in `recv` is also woken whenever the other end has read
    /// something.
    fn wait(&self) -> Result<(), FrameError> {
        loop {
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(FrameError::Broken(errno)),
            }
        }
    }

    /// Takes the bytes that have come. The buffer grows as bytes arrive: an announced length alone reserves no memory.
    fn receive_some(&mut self) -> Result<(), FrameError> {
        let have = self.come.len();
        self.come.resize(have + RECEIVE_BYTES.max(have), 0);
        let got = loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut self.come[have..])];
            match recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                got => {
                    let handed = control.drain().find_map(|message| match message {
                        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
                        _ => None,
                    });
                    self.descriptor = handed.or_else(|| self.descriptor.take());
                    break got.map(|message| message.bytes);
                }
            }
        };
        self.come.truncate(have + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) | Err(Errno::CONNRESET) if have == 0 => Err(FrameError::Closed),
            Ok(0) => Err(FrameError::Broken(Errno::CONNRESET)),
            Ok(_) => Ok(()),
            Err(errno) => Err(FrameError::Broken(errno)),
        }
    }

    /// Sends a message, `descriptors` beside its first byte.
    pub fn send<M: Serialize>(&mut self, message: &M, descriptors: &[OwnedFd]) -> Result<(), FrameError> {
        if descriptors.len() > DESCRIPTORS_MAX {
            return Err(FrameError::Descriptors(descriptors.len()));
        }
        let mut frame = std::mem::take(&mut self.buffer);
        frame.clear();
        wire::encode(message, &mut frame)?;
        let sent = self.send_first(&frame, descriptors)?;
        let mut rest = &frame[sent..];
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(FrameError::Broken(errno)),
            }
        }
        self.keep(frame);
        Ok(())
    }

    fn send_first(&self, frame: &[u8], descriptors: &[OwnedFd]) -> Result<usize, FrameError> {
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        loop {
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
                return Err(FrameError::Descriptors(borrowed.len()));
            }
            match sendmsg(&self.socket, &[IoSlice::new(frame)], &mut control, SendFlags::NOSIGNAL) {
                Ok(sent) => return Ok(sent),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(FrameError::Broken(errno)),
            }
        }
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() <= KEPT_BYTES {
            self.buffer = buffer;
        }
    }
}
