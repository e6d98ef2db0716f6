//! A ring (io_uring) that the kernel puts requests into (FUSE_OVER_IO_URING, Linux 6.14). No policy.
//!
//! A ring belongs to one thread and has room for one request. So what the thread gets it can serve at once: while it serves,
//! the kernel has no room of it, and takes another's. One system call hands over an answer and waits for what comes next.
//!
//! The kernel keeps a list of rooms for each processor, and puts a request into the room that came free last. What finds none
//! waits until some room of that processor is *answered*: new rooms are for new requests only.
//!
//! Memory of a room is the kernel's from when it is handed over until something comes back, if only an error: then it is
//! ours, and may be freed.

use crate::CONTENT_BYTES_MAX;
use crate::abi::{InHeader, Opcode, OutHeader, RingCommand, RingHeader, ring_command};
use crate::answer::Answer;
use crate::request::Request;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fd::{AsFd, AsRawFd as _};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Where the payload stands in a room's memory: at its own page, behind the header.
const PAYLOAD_AT: usize = 4096;
const ROOM_BYTES: usize = PAYLOAD_AT + CONTENT_BYTES_MAX;
/// A ring has one command at a time.
const ENTRIES: u32 = 1;
/// Where the submission has its length (`io_uring_sqe.len`), which the crate leaves out of commands.
const LENGTH_AT: usize = 24;

/// What a ring brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// A request; it wants an answer.
    Request,
    /// The mount is gone, or its kernel has no use for rings.
    End,
}

/// One ring.
pub struct Ring {
    ring: IoUring<squeue::Entry128>,
    room: Room,
    processor: u16,
    is_handed_over: bool,
}

impl Ring {
    /// One for requests made on a processor. Does nothing until it is registered.
    pub fn new(device: impl AsFd, processor: u16) -> io::Result<Ring> {
        let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(ENTRIES)?;
        ring.submitter().register_files(&[device.as_fd().as_raw_fd()])?;
        let room = Room::new()?;
        Ok(Ring { ring, room, processor, is_handed_over: false })
    }

    /// Whose requests it takes.
    #[must_use]
    pub fn processor(&self) -> u16 {
        self.processor
    }

    /// Hands the room over for the first time. From here on the ring is the calling thread's:
    /// what comes is put there while the thread waits for it, and must not end before the mount does.
    ///
    /// A kernel that refuses goes on by the device.
    pub fn register(&mut self) -> io::Result<()> {
        let places = self.room.places();
        self.hand_over(ring_command::REGISTER, 0, Some(&places));
        while let Err(error) = self.ring.submit() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        // What the kernel had against it is there at once, and a request may be.
        match self.ring.completion().next() {
            Some(came) if came.result() < 0 => {
                self.is_handed_over = false;
                Err(io::Error::from_raw_os_error(-came.result()))
            }
            // A request, which `receive` need not wait for.
            came => {
                self.is_handed_over = came.is_none();
                Ok(())
            }
        }
    }

    /// Waits for a request, with what there is to be handed over.
    pub fn receive(&mut self) -> io::Result<Brought> {
        while self.is_handed_over {
            if let Some(came) = self.ring.completion().next() {
                self.is_handed_over = false;
                return match -came.result() {
                    ..=0 => Ok(Brought::Request),
                    libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED | libc::ENODEV => Ok(Brought::End),
                    errno => Err(io::Error::from_raw_os_error(errno)),
                };
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Brought::Request)
    }

    /// What the request that is there asks for, and the process that asks.
    #[must_use]
    pub fn asked(&mut self) -> (Option<Opcode>, u32) {
        assert!(!self.is_handed_over, "the room is the kernel's");
        // SAFETY: it is not.
        let Parts { header, .. } = unsafe { self.room.parts() };
        let asked = read_header(header);
        (Opcode::from_number(asked.opcode), asked.pid)
    }

    /// Has the request that is there served, and its answer handed over with the next call.
    pub fn serve(&mut self, serve: impl FnOnce(Request<'_>, Answer<'_>) -> Result<usize, i32>) {
        assert!(!self.is_handed_over, "the room is the kernel's");
        // SAFETY: it is not, until the end of this.
        let Parts { header, payload, aside } = unsafe { self.room.parts() };
        let asked = read_header(header);
        let payload_bytes = header.entry.payload_bytes as usize;
        let first_bytes = (asked.length as usize).checked_sub(size_of::<InHeader>() + payload_bytes);
        let first = first_bytes.and_then(|bytes| header.operation.as_bytes().get(..bytes));
        let done = match (first, payload.get(..payload_bytes)) {
            // The answer is put together where the kernel takes it from, unless the request lies there.
            (Some(first), Some([])) => match Request::in_parts(asked, first, b"") {
                Ok(request) => serve(request, Answer::within(payload)),
                Err(_) => Err(libc::EIO),
            },
            (Some(first), Some(rest)) => match Request::in_parts(asked, first, rest) {
                Ok(request) => {
                    let done = serve(request, Answer::within(aside));
                    if let Ok(bytes) = done {
                        payload[..bytes].copy_from_slice(&aside[..bytes]);
                    }
                    done
                }
                Err(_) => Err(libc::EIO),
            },
            _ => Err(libc::EIO),
        };
        let (bytes, error) = match done {
            Ok(bytes) => (bytes, 0),
            Err(errno) => (0, -errno),
        };
        let answer =
            OutHeader { length: (size_of::<OutHeader>() + bytes) as u32, error, unique: asked.unique };
        header.header.as_mut_bytes()[..size_of::<OutHeader>()].copy_from_slice(answer.as_bytes());
        header.entry.payload_bytes = bytes as u32;
        let commit = header.entry.commit;
        self.hand_over(ring_command::COMMIT_AND_FETCH, commit, None);
    }

    fn hand_over(&mut self, command: u32, commit: u64, places: Option<&[libc::iovec; 2]>) {
        let mut said = [0; 80];
        let words = RingCommand { commit, queue: self.processor, ..RingCommand::default() };
        said[..size_of::<RingCommand>()].copy_from_slice(words.as_bytes());
        let entry = opcode::UringCmd80::new(types::Fixed(0), command)
            .cmd(said)
            .addr(places.map(|places| places.as_ptr() as u64))
            .build();
        // SAFETY: the entry is the 128 bytes that the kernel reads, and every one of them may be anything.
        let mut bytes: [u8; 128] = unsafe { std::mem::transmute(entry) };
        let length = places.map_or(0, |places| places.len() as u32);
        bytes[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&length.to_ne_bytes());
        // SAFETY: as above. The room outlives the command, and so do the places, which are read while it is submitted: before
        // `register` returns.
        let pushed = unsafe {
            let entry: squeue::Entry128 = std::mem::transmute(bytes);
            self.ring.submission().push(&entry)
        };
        assert!(pushed.is_ok(), "a ring has one command at a time");
        self.is_handed_over = true;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Nobody would say when the kernel is done with it.
        self.room.stays = self.is_handed_over;
    }
}

/// Memory for one request and its answer.
struct Room {
    memory: NonNull<c_void>,
    /// Where answers are put together whose requests lie where they are to stand.
    aside: Box<[u8]>,
    stays: bool,
}

struct Parts<'a> {
    header: &'a mut RingHeader,
    payload: &'a mut [u8],
    aside: &'a mut [u8],
}

// SAFETY: the memory is this room's alone.
unsafe impl Send for Room {}

impl Room {
    fn new() -> io::Result<Room> {
        // SAFETY: a new mapping, where the kernel likes.
        let memory = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(std::ptr::null_mut(), ROOM_BYTES, access, MapFlags::PRIVATE)
        }?;
        let memory = NonNull::new(memory).ok_or(Errno::NOMEM)?;
        Ok(Room { memory, aside: vec![0; CONTENT_BYTES_MAX].into_boxed_slice(), stays: false })
    }

    /// What stands in it.
    ///
    /// # Safety
    ///
    /// It must not be handed over.
    unsafe fn parts(&mut self) -> Parts<'_> {
        // SAFETY: the memory is mapped and zeroed for as long as the room is there, both parts lie in it, aligned, and do not
        // overlap; who has the room has the memory, as the caller says.
        unsafe {
            let header = self.memory.cast::<RingHeader>().as_mut();
            let payload = self.memory.cast::<u8>().add(PAYLOAD_AT);
            let payload = std::slice::from_raw_parts_mut(payload.as_ptr(), CONTENT_BYTES_MAX);
            Parts { header, payload, aside: &mut self.aside }
        }
    }

    /// Where the kernel finds header and payload.
    fn places(&self) -> [libc::iovec; 2] {
        let payload = self.memory.as_ptr().wrapping_byte_add(PAYLOAD_AT);
        [
            libc::iovec { iov_base: self.memory.as_ptr(), iov_len: size_of::<RingHeader>() },
            libc::iovec { iov_base: payload, iov_len: CONTENT_BYTES_MAX },
        ]
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.stays {
            // SAFETY: the mapping was made with this length, and nobody has it any more.
            let _ = unsafe { munmap(self.memory.as_ptr(), ROOM_BYTES) };
        }
    }
}

fn read_header(header: &RingHeader) -> InHeader {
    let (asked, _) = InHeader::read_from_prefix(header.header.as_bytes()).expect("it has room for one");
    asked
}
