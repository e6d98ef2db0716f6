//! The first words of a kernel and a server: what both can.

use crate::abi::{InHeader, InitIn, InitOut, MAJOR, MINOR, MINOR_LEAST, Opcode, init};
use crate::device::{Device, Received};
use crate::request::{Malformed, Request};
use crate::ring::Ring;
use crate::server::ServeError;
use crate::{CONTENT_BYTES_MAX, HEAD_BYTES_MAX};
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Pages of one read or write at most.
const PAGES_MAX: u16 = 256;
/// How far the kernel reads ahead.
const READ_AHEAD_BYTES: u32 = 256 << 10;
/// Requests that nobody waits for (read ahead, write back) under way at once; from the second number on the kernel holds back.
const BACKGROUND_MAX: u16 = 64;
const CONGESTION: u16 = 48;

/// What is asked of the kernel, as far as it can.
const WANTED: u64 = init::ASYNC_READ
    | init::POSIX_LOCKS
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::FLOCK_LOCKS
    | init::AUTO_INVAL_DATA
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::POSIX_ACL
    | init::MAX_PAGES
    | init::CACHE_SYMLINKS
    | init::HANDLE_KILLPRIV_V2
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::DIRECT_IO_ALLOW_MMAP
    | init::NO_EXPORT_SUPPORT;

/// What was agreed on.
pub struct Agreed {
    /// The minor version of the protocol.
    pub minor: u32,
    /// By these the kernel makes requests, once they are registered; none: by the device.
    pub rings: Vec<Ring>,
}

/// Agrees with the kernel. `rings` makes them, where the kernel can use them.
///
/// A kernel that was told of rings makes no request until each of its processors has one. So they are there before it is told.
pub fn shake_hands(device: &Device, rings: impl FnOnce() -> Vec<Ring>) -> Result<Agreed, ServeError> {
    let mut buffer = vec![0; HEAD_BYTES_MAX + CONTENT_BYTES_MAX];
    loop {
        let Received::Request(bytes) = device.receive(&mut buffer).map_err(ServeError::Device)? else {
            return Err(ServeError::Handshake);
        };
        let (unique, kernel) = read(&buffer[..bytes]).map_err(|_| ServeError::Handshake)?;
        if kernel.major > MAJOR {
            // It asks once more, in our terms.
            device.answer(unique, InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() }.as_bytes());
            continue;
        }
        if (kernel.major, kernel.minor) < (MAJOR, MINOR_LEAST) {
            device.refuse(unique, libc::EPROTO);
            return Err(ServeError::Kernel { major: kernel.major, minor: kernel.minor });
        }
        let offered = u64::from(kernel.flags) | u64::from(kernel.flags2) << 32;
        let rings = if offered & init::OVER_IO_URING == 0 { Vec::new() } else { rings() };
        let by_rings = if rings.is_empty() { 0 } else { init::OVER_IO_URING };
        let agreed = offered & WANTED | by_rings;
        let answer = InitOut {
            major: MAJOR,
            minor: MINOR,
            read_ahead_max: kernel.read_ahead_max.max(READ_AHEAD_BYTES),
            flags: agreed as u32,
            flags2: (agreed >> 32) as u32,
            background_max: BACKGROUND_MAX,
            congestion: CONGESTION,
            write_max: CONTENT_BYTES_MAX as u32,
            time_grain_ns: 1,
            pages_max: PAGES_MAX,
            ..InitOut::default()
        };
        device.answer(unique, answer.as_bytes());
        return Ok(Agreed { minor: kernel.minor, rings });
    }
}

/// The number of the first request, and what the kernel says with it: older ones say less.
fn read(bytes: &[u8]) -> Result<(u64, InitIn), Malformed> {
    let mut request = Request::read(bytes)?;
    if request.opcode != Some(Opcode::Init) {
        return Err(Malformed);
    }
    let mut said = [0; size_of::<InitIn>()];
    let length = (request.header.length as usize - size_of::<InHeader>()).min(said.len());
    said[..length].copy_from_slice(request.arguments.bytes(length)?);
    Ok((request.header.unique, InitIn::read_from_bytes(&said).map_err(|_| Malformed)?))
}
