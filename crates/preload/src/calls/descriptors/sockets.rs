//! Descriptors sent to other processes, and received: see [`crate::descriptors::passing`].

use crate::call::{self, Answer, Call, Failure};
use crate::calls::kinds::stand_ins;
use crate::descriptors::{self, passing, references};
use crate::memory::user_memory;
use crate::thread;

/// Where `struct msghdr` has the address and the length of its control messages.
const CONTROL_AT: usize = 32;
/// `struct cmsghdr`.
const HEADER_BYTES: usize = 16;
/// `struct mmsghdr`, and where it has what was sent.
const MESSAGE_BYTES: usize = 64;
const SENT_AT: usize = 56;
/// Most messages a call takes.
const MESSAGES_MAX: usize = 1024;
/// Most bytes one call moves, as the kernel has it.
const COUNT_LIMIT: usize = 0x7fff_f000;
/// More control data than the kernel takes.
const CONTROL_LIMIT: usize = 1 << 16;

/// A call on sockets, of a descriptor that is a file of ours.
pub fn refuse_file(call: &Call) -> Result<(), Failure> {
    match call.pin(0) {
        Ok(pin) => {
            pin.file()?.check_not_path()?;
            Err(Failure::Errno(libc::ENOTSOCK))
        }
        Err(Failure::NotOurs) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// The same of a call with a buffer, which is looked at first.
pub fn refuse_file_with_buffer(call: &Call) -> Result<(), Failure> {
    match refuse_file(call) {
        Err(Failure::Errno(_)) if !user_memory::is_in_reach(call.word(1), call.word(2).min(COUNT_LIMIT)) => {
            Err(Failure::Errno(libc::EFAULT))
        }
        refused => refused,
    }
}

/// `sendmsg`: descriptors of ours become such as can travel first.
pub fn send_message(call: &Call) -> Answer {
    refuse_file(call)?;
    let has_ours = prepare(call.word(1))?;
    match stand_ins::send_message(call) {
        Err(Failure::NotOurs) if has_ours => send_plainly(call.arguments),
        answer => answer,
    }
}

/// `sendmmsg`: message by message if one of them is for us to look at.
pub fn send_messages(call: &Call) -> Answer {
    refuse_file(call)?;
    let count = call.word(2).min(MESSAGES_MAX);
    let message = |number: usize| message_at(call.word(1), number);
    let concerns_us = |number: usize| {
        let has_ours = descriptors_in(message(number)).into_iter().any(descriptors::is_of_interest);
        has_ours || stand_ins::is_for_store(message(number))
    };
    if !(0..count).any(concerns_us) {
        return Err(Failure::NotOurs);
    }
    for number in 0..count {
        let arguments = [call.word(0), message(number), call.word(3), 0, 0, 0];
        let single = Call { number: libc::SYS_sendmsg as usize, arguments };
        let sent = match send_message(&single) {
            Err(Failure::NotOurs) => send_plainly(arguments),
            sent => sent,
        };
        match sent {
            Ok(bytes) => user_memory::write(message(number).wrapping_add(SENT_AT), &(bytes as u32))?,
            // The call reports the messages that went out before.
            Err(_) if number > 0 => return Ok(number as isize),
            Err(failure) => return Err(failure),
        }
    }
    Ok(count as isize)
}

fn send_plainly(arguments: [usize; 6]) -> Answer {
    call::from_kernel(thread::wait(libc::SYS_sendmsg, arguments, true))
}

/// `recvmsg`: descriptors of ours that come with the message are taken for what they are.
pub fn receive_message(call: &Call) -> Answer {
    refuse_file(call)?;
    if !takes_descriptors(call.word(1)) {
        return Err(Failure::NotOurs);
    }
    let received = call::from_kernel(thread::wait(libc::SYS_recvmsg, call.arguments, true))?;
    receive(call, call.word(1));
    Ok(received)
}

/// `recvmmsg`, as [`receive_message`].
pub fn receive_messages(call: &Call) -> Answer {
    refuse_file(call)?;
    let count = call.word(2).min(MESSAGES_MAX);
    let message = |number: usize| message_at(call.word(1), number);
    if !(0..count).any(|number| takes_descriptors(message(number))) {
        return Err(Failure::NotOurs);
    }
    let received = call::from_kernel(thread::wait(libc::SYS_recvmmsg, call.arguments, true))?;
    (0..received as usize).for_each(|number| receive(call, message(number)));
    Ok(received)
}

/// `pidfd_getfd`: another process's descriptor, or one of this process's.
pub fn take_from_process(call: &Call) -> Answer {
    let fd = call::from_kernel(call.kernel(call.arguments))?;
    receive_one(call, fd as i32);
    if descriptors::pin(fd as i32).is_none() && references::is_placeholder_of_store(fd as i32) {
        // It was never sent, and says nothing of its file.
        // SAFETY: the descriptor just made, which the application has not seen.
        unsafe { crate::arch::syscall(libc::SYS_close as usize, [fd as usize, 0, 0, 0, 0, 0]) };
        return call.unserved(libc::EOPNOTSUPP);
    }
    Ok(fd)
}

/// Whether a message that was received brought descriptors of ours.
pub fn brings_ours(call: &Call, answer: Answer) -> bool {
    let is_ours = |message: usize| descriptors_in(message).iter().any(|fd| descriptors::pin(*fd).is_some());
    match (call.number as i64, answer) {
        (libc::SYS_recvmsg, Ok(_)) => is_ours(call.word(1)),
        (_, Ok(count)) => (0..count as usize).any(|number| is_ours(message_at(call.word(1), number))),
        (_, Err(_)) => false,
    }
}

fn message_at(messages: usize, number: usize) -> usize {
    messages.wrapping_add(number * MESSAGE_BYTES)
}

/// Whether there is room for a descriptor in what is to be received at `message`.
fn takes_descriptors(message: usize) -> bool {
    let control = user_memory::read::<[usize; 2]>(message.wrapping_add(CONTROL_AT));
    control.is_ok_and(|[address, length]| address != 0 && length > HEADER_BYTES)
}

fn receive(call: &Call, message: usize) {
    for fd in descriptors_in(message) {
        receive_one(call, fd);
    }
}

/// One that cannot be used answers whatever is done with it with EBADF.
fn receive_one(call: &Call, fd: i32) {
    if passing::receive(fd).is_err() {
        passing::make_useless(fd);
        let _ = call.unserved(libc::EOPNOTSUPP);
    }
}

/// Makes the descriptors in the message at `message` such as can travel. Says whether there are any of ours.
fn prepare(message: usize) -> Result<bool, Failure> {
    let mut has_ours = false;
    for fd in descriptors_in(message) {
        if descriptors::is_hidden(fd) {
            return Err(Failure::Errno(libc::EBADF));
        }
        if let Some(pin) = descriptors::pin(fd) {
            passing::prepare(fd, &pin)?;
            has_ours = true;
        }
    }
    Ok(has_ours)
}

/// The descriptors in the control messages of the message at `message`. The kernel reports errors in it.
fn descriptors_in(message: usize) -> Vec<i32> {
    let mut found = Vec::new();
    let Ok([address, length]) = user_memory::read::<[usize; 2]>(message.wrapping_add(CONTROL_AT)) else {
        return found;
    };
    let mut bytes = vec![0; if address == 0 { 0 } else { length.min(CONTROL_LIMIT) }];
    if user_memory::read_bytes(address, &mut bytes).is_err() {
        return found;
    }
    let mut rest = &bytes[..];
    while let Some((header, _)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let word =
            |at: usize| i32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let length = word(0) as u32 as usize;
        let Some(data) = rest.get(HEADER_BYTES..length) else { break };
        if word(8) == libc::SOL_SOCKET && word(12) == libc::SCM_RIGHTS {
            found.extend(data.as_chunks::<4>().0.iter().map(|fd| i32::from_ne_bytes(*fd)));
        }
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    found
}
