//! `io_submit`: requests of Linux's asynchronous I/O, some of them for files of ours.
//!
//! A request of ours is served at once, which takes about as long as handing it over would. Its completion must still
//! come from the kernel: from the queue that io_getevents waits on, that libaio reads in memory without any
//! call, and that signals an eventfd. So each is handed to the kernel as a write of as many bytes to /dev/null as
//! were moved, under its own address and data: that completes with just the number that is to be told. A request that fails
//! says so as the answer of io_submit, as what the kernel finds wrong with a request does.

use crate::call::{Answer, Call, Failure};
use crate::calls::data::contents;
use crate::memory::user_memory;
use crate::store::OpenFile;
use crate::{descriptors, process};
use cuesta_format::FileKind;
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};

/// `struct iocb`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Request {
    data: u64,
    key: u32,
    io_flags: u32,
    operation: u16,
    priority: i16,
    fd: i32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

// SAFETY: integers without padding.
unsafe impl user_memory::Plain for Request {}

/// Operations of a request, by the names of the kernel's `IOCB_CMD_*`.
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;

/// The kernel's `IOCB_FLAG_RESFD`: the completion signals `event_fd`.
const FLAG_EVENT_FD: u32 = 1;

/// `io_submit(context, count, requests)`.
pub fn submit(call: &Call) -> Answer {
    let [context, count, requests, ..] = call.arguments;
    let address_of = |index: usize| user_memory::read::<usize>(requests.wrapping_add(index * 8));
    let request_at = |index: usize| user_memory::read::<Request>(address_of(index)?);
    let is_of_interest = |index: usize| {
        let fd = request_at(index).map_or(-1, |request| request.fd);
        descriptors::is_hidden(fd) || descriptors::pin(fd).is_some()
    };
    if count > isize::MAX as usize || !(0..count).any(is_of_interest) {
        return Err(Failure::NotOurs);
    }
    let Ok(null) = rustix::fs::open(c"/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return call.unserved(libc::EOPNOTSUPP);
    };
    for index in 0..count {
        let submitted = address_of(index).and_then(|address| {
            let own = serve(call, user_memory::read(address)?, &null)?;
            submit_one(call, context, requests.wrapping_add(index * 8), address, own)
        });
        if let Err(failure) = submitted {
            // Those before this one are under way.
            return if index == 0 { Err(failure) } else { Ok(index as isize) };
        }
    }
    Ok(count as isize)
}

/// Hands one request to the kernel, in the form of `own` if it has one.
fn submit_one(
    call: &Call,
    context: usize,
    place: usize,
    address: usize,
    own: Option<Request>,
) -> Result<(), Failure> {
    let original = user_memory::read::<Request>(address)?;
    if let Some(own) = own {
        user_memory::write(address, &own)?;
    }
    let answer = call.kernel([context, 1, place, 0, 0, 0]);
    if own.is_some() {
        // The kernel has copied it, and left its key: the same for all.
        let key = user_memory::read::<Request>(address)?.key;
        user_memory::write(address, &Request { key, ..original })?;
    }
    match answer {
        1 => Ok(()),
        errno if errno < 0 => Err(Failure::Errno(-errno as i32)),
        _ => Err(Failure::Errno(libc::EAGAIN)),
    }
}

/// Does what a request asks for, if it is for a file of ours, and answers what the kernel gets in its place.
fn serve(call: &Call, request: Request, null: &OwnedFd) -> Result<Option<Request>, Failure> {
    if descriptors::is_hidden(request.fd) {
        return Err(Failure::Errno(libc::EBADF));
    }
    let Some(pin) = descriptors::pin(request.fd) else { return Ok(None) };
    let elsewhere = Request { fd: null.as_raw_fd(), ..request };
    if request.reserved != 0 {
        return Ok(Some(elsewhere));
    }
    if request.flags & FLAG_EVENT_FD != 0 && descriptors::pin(request.event_fd as i32).is_some() {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let file = pin.file()?;
    let moved = match request.operation {
        PREAD | PWRITE | PREADV | PWRITEV if file.kind() == FileKind::Directory => {
            return Err(Failure::Errno(libc::EINVAL));
        }
        PREAD | PREADV => moving(&request, [libc::SYS_preadv, libc::SYS_preadv2], contents::read_vector)?,
        PWRITE | PWRITEV if appends(file, &request) => {
            // If the kernel then had no room for the request, the program would submit it again, and append twice.
            return call.unserved(libc::EOPNOTSUPP).map(|_| None);
        }
        PWRITE | PWRITEV => {
            moving(&request, [libc::SYS_pwritev, libc::SYS_pwritev2], contents::write_vector)?
        }
        FSYNC | FDSYNC => {
            if (request.buffer, request.bytes, request.offset, request.io_flags) != (0, 0, 0, 0) {
                return Err(Failure::Errno(libc::EINVAL));
            }
            process::client()?.fsync(file)?;
            0
        }
        // To wait for a file is over at once, on the null device too; anything else is refused there too.
        _ => return Ok(Some(elsewhere)),
    };
    Ok(Some(Request { operation: PWRITE, bytes: moved as u64, offset: 0, io_flags: 0, ..elsewhere }))
}

fn appends(file: &OpenFile, request: &Request) -> bool {
    file.appends() || request.io_flags & libc::RWF_APPEND as u32 != 0
}

/// Makes the synchronous call that moves what `request` would: `numbers` are those without and with flags.
fn moving(request: &Request, numbers: [i64; 2], make: fn(&Call) -> Answer) -> Answer {
    if request.offset < 0 {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let number = numbers[usize::from(request.io_flags != 0)] as usize;
    let one = [request.buffer as usize, request.bytes as usize];
    let (vector, count) = match request.operation {
        PREADV | PWRITEV => (one[0], one[1]),
        _ => (one.as_ptr() as usize, 1),
    };
    let offset = request.offset as usize;
    make(&Call {
        number,
        arguments: [request.fd as usize, vector, count, offset, 0, request.io_flags as usize],
    })
}
