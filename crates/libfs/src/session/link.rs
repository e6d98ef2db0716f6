//! The link to SharedFS: one request, one response, and descriptors beside it.
//!
//! It uses raw system calls on the socket, because the preload door intercepts libc's wrappers.

use crate::errno::Error;
use cuesta_format::wire;
use cuesta_format::wire::{DESCRIPTORS_MAX, Question, Request, Response};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{DupFlags, Errno};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::thread::sched_getcpu;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::Duration;

/// Bytes that the first receive asks for, before the length of the answer is known. Most answers are shorter,
/// and a short program pays for each page that it touches.
const RECEIVE_BYTES: usize = 4 << 10;

/// How long the link waits for an answer before it tells SharedFS. Each wait is four times as long as the last.
/// A wait that would reach the maximum has no limit, and the link tells no more.
const PATIENCE: Duration = Duration::from_millis(20);
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// The connection to SharedFS failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No daemon listens, or the connection broke.
    #[error("no connection to the daemon: {0}")]
    Gone(String),
    /// A socket exists, but the process cannot reach it.
    #[error("cannot connect to the daemon: {0}")]
    Barred(Errno),
    /// The bytes that arrived are no message.
    #[error("the daemon's answer cannot be read: {0}")]
    Garbled(String),
    /// The daemon is of another version.
    #[error("{0}")]
    Version(String),
}

impl From<Errno> for LinkError {
    fn from(errno: Errno) -> Self {
        LinkError::Gone(errno.to_string())
    }
}

impl From<wire::WireError> for LinkError {
    fn from(error: wire::WireError) -> Self {
        match error {
            wire::WireError::Version(_) => LinkError::Version(error.to_string()),
            error => LinkError::Garbled(error.to_string()),
        }
    }
}

/// A connection on which a session asks SharedFS.
pub trait Link: Send {
    /// Sends `request` and waits for the answer. It pushes the descriptors that come with the answer, in
    /// order.
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError>;

    /// Like [`Link::call`], and hands a descriptor over with the request.
    fn call_handing(&mut self, _request: &Request, _handed: BorrowedFd<'_>) -> Result<Response, LinkError> {
        Err(LinkError::Gone("no descriptor can go this way".into()))
    }

    /// Sends `request` without waiting. The caller collects the answer before it sends anything else.
    /// `false`: this link cannot post, and has sent nothing.
    fn post(&mut self, _request: &Request) -> Result<bool, LinkError> {
        Ok(false)
    }

    /// The descriptor this link keeps open, if it has one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Replaces that descriptor by a copy, and answers the old one.
    fn replace_descriptor(&mut self, copy: OwnedFd) -> OwnedFd {
        copy
    }

    /// Connects again, to the present daemon, after the connection broke. It forgets what was posted. If no
    /// daemon listens, nothing changes. `false`: this link cannot connect again.
    fn reconnect(&mut self) -> Result<bool, LinkError> {
        Ok(false)
    }

    /// The answer to what was posted. `None`: it has not arrived, and the caller did not want to wait.
    fn collect(&mut self, _wait: bool) -> Result<Option<Response>, LinkError> {
        Ok(None)
    }
}

/// The link over the store's socket.
#[derive(Debug)]
pub struct SocketLink {
    socket: OwnedFd,
    path: Vec<u8>,
    descriptor_floor: i32,
    frame: Vec<u8>,
}

impl SocketLink {
    /// Connects to the socket at `path`. Every descriptor this link makes is `descriptor_floor` or higher.
    pub fn connect(path: &[u8], descriptor_floor: i32) -> Result<SocketLink, LinkError> {
        let socket = lift(connect(path)?, descriptor_floor);
        Ok(SocketLink { socket, path: path.to_vec(), descriptor_floor, frame: Vec::new() })
    }

    fn send(&mut self, request: &Request, is_waited_for: bool) -> Result<(), LinkError> {
        self.encode(request, is_waited_for)?;
        self.send_from(0)
    }

    fn encode(&mut self, request: &Request, is_waited_for: bool) -> Result<(), LinkError> {
        let processor = if is_waited_for { u32::try_from(sched_getcpu()).ok() } else { None };
        self.frame.clear();
        Ok(wire::encode(&Question { processor, request }, &mut self.frame)?)
    }

    /// Sends the encoded bytes from `start` on.
    fn send_from(&self, start: usize) -> Result<(), LinkError> {
        let mut rest = self.frame.get(start..).unwrap_or_default();
        while !rest.is_empty() {
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Waits until an answer arrives. (A thread that waits in `recvmsg` also wakes when the other end has
    /// read the request.)
    ///
    /// SharedFS answers on the processor on which it was asked. If another thread keeps that processor to
    /// itself, SharedFS cannot answer there. A second connection then tells it so.
    fn wait(&self) -> Result<(), LinkError> {
        let mut patience = PATIENCE;
        loop {
            let limit = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
            let limit = (patience < PATIENCE_MAX).then_some(&limit);
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], limit) {
                Ok(0) => {
                    patience *= 4;
                    // If this fails, no daemon can be told.
                    let _ = SocketLink::connect(&self.path, self.descriptor_floor)
                        .and_then(|mut other| other.send(&Request::Unheard, false));
                }
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Receives a whole frame into `self.frame`. `false`: nothing has arrived, and the caller did not want to
    /// wait.
    fn receive(&mut self, descriptors: &mut Vec<OwnedFd>, wait: bool) -> Result<bool, LinkError> {
        self.frame.clear();
        let mut wanted = 4;
        while self.frame.len() < wanted {
            let have = self.frame.len();
            let flags = if have > 0 { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
            self.frame.resize(have + RECEIVE_BYTES.max(wanted - have), 0);
            let part = &mut self.frame[have..];
            let got = receive_some(&self.socket, part, descriptors, self.descriptor_floor, flags);
            self.frame.truncate(have + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => return Err(LinkError::Gone("connection closed".into())),
                Err(Errno::AGAIN) if have == 0 && !wait => return Ok(false),
                Err(Errno::AGAIN) if have == 0 => self.wait()?,
                got => got.map(drop)?,
            }
            if let Some(&head) = self.frame.first_chunk::<4>() {
                wanted = 4 + wire::frame_length(head)?;
            }
        }
        if self.frame.len() > wanted {
            return Err(LinkError::Garbled("more than one answer".into()));
        }
        Ok(true)
    }
}

impl Link for SocketLink {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        self.send(request, true)?;
        self.receive(descriptors, true)?;
        Ok(wire::decode(&self.frame[4..])?)
    }

    fn call_handing(&mut self, request: &Request, handed: BorrowedFd<'_>) -> Result<Response, LinkError> {
        self.encode(request, true)?;
        let handed = [handed];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&handed));
        let parts = [IoSlice::new(&self.frame)];
        let sent = loop {
            match rustix::net::sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => break sent?,
            }
        };
        self.send_from(sent)?;
        self.receive(&mut Vec::new(), true)?;
        Ok(wire::decode(&self.frame[4..])?)
    }

    fn post(&mut self, request: &Request) -> Result<bool, LinkError> {
        self.send(request, false).map(|()| true)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn replace_descriptor(&mut self, copy: OwnedFd) -> OwnedFd {
        std::mem::replace(&mut self.socket, copy)
    }

    fn reconnect(&mut self) -> Result<bool, LinkError> {
        let socket = connect(&self.path).map_err(|error| match error {
            // The open connection works again as soon as the process has descriptors left.
            LinkError::Barred(errno @ (Errno::MFILE | Errno::NFILE)) => errno.into(),
            error => error,
        })?;
        let socket = lift(socket, self.descriptor_floor);
        // The number of the descriptor stays the same, because the door knows it.
        rustix::io::dup3(&socket, &mut self.socket, DupFlags::CLOEXEC)?;
        Ok(true)
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Response>, LinkError> {
        if !self.receive(&mut Vec::new(), wait)? {
            return Ok(None);
        }
        Ok(Some(wire::decode(&self.frame[4..])?))
    }
}

/// A connection to the socket at `path`.
fn connect(path: &[u8]) -> Result<OwnedFd, LinkError> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(LinkError::Barred)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            Err(Errno::INTR) => {}
            Err(errno @ (Errno::NOENT | Errno::CONNREFUSED)) => return Err(errno.into()),
            Err(errno) => return Err(LinkError::Barred(errno)),
        }
    }
}

fn receive_some(
    socket: &OwnedFd,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
    descriptor_floor: i32,
    flags: RecvFlags,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(socket, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => {
                for part in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(files) = part {
                        for file in files {
                            descriptors.push(lift(file, descriptor_floor));
                        }
                    }
                }
                return Ok(message.bytes);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Moves a descriptor to `floor` or above. If the process's limit leaves no room there, the descriptor stays
/// where it is.
fn lift(file: OwnedFd, floor: i32) -> OwnedFd {
    if floor == 0 {
        return file;
    }
    rustix::io::fcntl_dupfd_cloexec(file.as_fd(), floor).unwrap_or(file)
}

impl From<LinkError> for Error {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Gone(_) => Error::Disconnected,
            LinkError::Barred(_) => Error::Daemon(error.to_string()),
            LinkError::Garbled(why) => Error::Daemon(why),
            LinkError::Version(why) => Error::Version(why),
        }
    }
}
