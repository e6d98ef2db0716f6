//! Descriptors sent to other processes: one of ours would be a placeholder there, which is no file.

use super::{Answer, Call, Failure, stand_ins};
use crate::{descriptors, thread, user_memory};

/// Where `struct msghdr` has the address and the length of its control messages.
const CONTROL_AT: usize = 32;
/// `struct cmsghdr`.
const HEADER_BYTES: usize = 16;
/// `struct mmsghdr`, and where it has what was sent.
const MESSAGE_BYTES: usize = 64;
const SENT_AT: usize = 56;
/// Most messages a call takes.
const MESSAGES_MAX: usize = 1024;
/// More control data than the kernel takes.
const CONTROL_LIMIT: usize = 1 << 16;

/// `sendmsg`: refused, with a count for `cuesta status`, if it would hand over a descriptor of ours.
pub fn send_message(call: &Call) -> Answer {
    check_descriptors(call, call.word(1))?;
    stand_ins::send_message(call)
}

/// `sendmmsg`: message by message if one of them is for us to look at.
pub fn send_messages(call: &Call) -> Answer {
    let count = call.word(2).min(MESSAGES_MAX);
    let message = |number: usize| call.word(1).wrapping_add(number * MESSAGE_BYTES);
    let concerns_us = |number: usize| {
        check_descriptors(call, message(number)).is_err() || stand_ins::is_for_store(message(number))
    };
    if !(0..count).any(concerns_us) {
        return Err(Failure::NotOurs);
    }
    for number in 0..count {
        let arguments = [call.word(0), message(number), call.word(3), 0, 0, 0];
        let single = Call { number: libc::SYS_sendmsg as usize, arguments };
        let sent =
            match check_descriptors(call, message(number)).and_then(|()| stand_ins::send_message(&single)) {
                Err(Failure::NotOurs) => stand_ins::answer(thread::wait(libc::SYS_sendmsg, arguments, true)),
                sent => sent,
            };
        match sent {
            Ok(bytes) => user_memory::write(message(number).wrapping_add(SENT_AT), &(bytes as u32))?,
            // What went out before is what the call tells of.
            Err(_) if number > 0 => return Ok(number as isize),
            Err(failure) => return Err(failure),
        }
    }
    Ok(count as isize)
}

/// Whether the message at `message` may go: it hands over no descriptor of ours.
fn check_descriptors(call: &Call, message: usize) -> Result<(), Failure> {
    let Ok([address, length]) = user_memory::read::<[usize; 2]>(message.wrapping_add(CONTROL_AT)) else {
        // The kernel says what is wrong with it.
        return Ok(());
    };
    let mut bytes = vec![0; length.min(CONTROL_LIMIT)];
    if user_memory::read_bytes(address, &mut bytes).is_err() {
        return Ok(());
    }
    let mut rest = &bytes[..];
    while let Some((header, _)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let word =
            |at: usize| i32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let length = word(0) as u32 as usize;
        let Some(data) = rest.get(HEADER_BYTES..length) else { break };
        if word(8) == libc::SOL_SOCKET && word(12) == libc::SCM_RIGHTS {
            for fd in data.as_chunks::<4>().0.iter().map(|fd| i32::from_ne_bytes(*fd)) {
                if descriptors::pin(fd).is_some() {
                    return call.unserved(libc::EOPNOTSUPP).map(|_| ());
                }
                if descriptors::is_hidden(fd) {
                    return Err(Failure::Errno(libc::EBADF));
                }
            }
        }
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    Ok(())
}
