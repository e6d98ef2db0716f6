//! Descriptors sent to other processes: one of ours would be a placeholder there, which is no file.

use super::{Answer, Call, Failure, stand_ins};
use crate::{descriptors, user_memory};

/// Where `struct msghdr` has the address and the length of its control messages.
const CONTROL_AT: usize = 32;
/// `struct cmsghdr`.
const HEADER_BYTES: usize = 16;
/// More control data than the kernel takes.
const CONTROL_LIMIT: usize = 1 << 16;

/// `sendmsg`: refused, with a count for `cuesta status`, if it would hand over a descriptor of ours.
pub fn send_message(call: &Call) -> Answer {
    let control = user_memory::read(call.word(1).wrapping_add(CONTROL_AT)).map_err(|_| Failure::NotOurs)?;
    let [address, length]: [usize; 2] = control;
    let mut bytes = vec![0; length.min(CONTROL_LIMIT)];
    user_memory::read_bytes(address, &mut bytes).map_err(|_| Failure::NotOurs)?;
    let mut rest = &bytes[..];
    while let Some((header, _)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let word =
            |at: usize| i32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let length = word(0) as u32 as usize;
        let Some(data) = rest.get(HEADER_BYTES..length) else { break };
        if word(8) == libc::SOL_SOCKET && word(12) == libc::SCM_RIGHTS {
            for fd in data.as_chunks::<4>().0.iter().map(|fd| i32::from_ne_bytes(*fd)) {
                if descriptors::pin(fd).is_some() {
                    return call.unserved(libc::EOPNOTSUPP);
                }
                if descriptors::is_hidden(fd) {
                    return Err(Failure::Errno(libc::EBADF));
                }
            }
        }
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    stand_ins::send_message(call)
}
