//! Messages over a stream socket, each in turn with the other side's; one descriptor may lie beside one.
//!
//! The socket is used by its raw system calls: libc's wrappers are intercepted in the processes this runs in.

use crate::protocol::FRAME_BYTES_MAX;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

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
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Frames {
    pub(crate) fn new(socket: OwnedFd) -> Frames {
        Frames { socket, buffer: Vec::new() }
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
        let sent = self.send_all(&frame, descriptor);
        self.keep(frame);
        sent.map_err(FrameError::Ended)
    }

    fn send_all(&self, frame: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let mut rest = frame;
        let mut beside = descriptor;
        while !rest.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let borrowed = beside.map(|file| [file]);
            if let Some(borrowed) = &borrowed {
                control.push(SendAncillaryMessage::ScmRights(borrowed));
            }
            match sendmsg(&self.socket, &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    rest = rest.get(sent..).unwrap_or_default();
                    beside = None;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Waits for a message and hands it to `take`, with the descriptor that came beside it.
    pub(crate) fn receive<'b, M: Deserialize<'b>>(&'b mut self) -> Result<(M, Option<OwnedFd>), FrameError> {
        if self.buffer.capacity() > KEPT_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        let mut descriptor = None;
        let mut wanted = HEAD_BYTES;
        while self.buffer.len() < wanted {
            let have = self.buffer.len();
            let room = RECEIVE_BYTES.max((wanted - have).min(STEP_BYTES));
            self.buffer.resize(have + room, 0);
            let got = receive_some(&self.socket, &mut self.buffer[have..], &mut descriptor);
            self.buffer.truncate(have + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => return Err(FrameError::Ended(Errno::CONNRESET)),
                Ok(_) => {}
                Err(errno) => return Err(FrameError::Ended(errno)),
            }
            if let Some(head) = self.buffer.first_chunk::<HEAD_BYTES>() {
                let length = u32::from_le_bytes(*head) as usize;
                if length > FRAME_BYTES_MAX {
                    return Err(FrameError::Malformed);
                }
                wanted = HEAD_BYTES + length;
            }
        }
        if self.buffer.len() > wanted {
            return Err(FrameError::Malformed);
        }
        let message = postcard::from_bytes(&self.buffer[HEAD_BYTES..]).map_err(|_| FrameError::Malformed)?;
        Ok((message, descriptor))
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() <= KEPT_BYTES {
            self.buffer = buffer;
        }
    }
}

/// Receives what there is; of several descriptors the last one stays.
fn receive_some(
    socket: &OwnedFd,
    buffer: &mut [u8],
    descriptor: &mut Option<OwnedFd>,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(buffer)];
        match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
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
