//! Calls on descriptors of kinds that no file is (an epoll, a timer, a namespace, …): the kernel's answer for a file
//! there, which it would not give for a placeholder.

use crate::call::{Answer, Call, Failure};
use crate::memory::user_memory;

const EVENT_BYTES: usize = size_of::<libc::epoll_event>();

/// Most events that can be waited for at once.
const EVENTS_MAX: i32 = i32::MAX / EVENT_BYTES as i32;

/// Such a call, about a file of ours. The kernel first says what is wrong with its other arguments. It is asked with a descriptor that
/// no process has, as our own may be one of a file to it or one for paths only.
pub fn refuse(call: &Call, errno: i32) -> Answer {
    let pin = call.pin(0)?;
    let mut arguments = call.arguments;
    arguments[0] = i32::MAX as usize;
    let answer = call.kernel(arguments);
    let is_path = pin.file()?.check_not_path().is_err();
    let waits =
        matches!(call.number as i64, libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2);
    match answer {
        answer if answer == -(libc::EBADF as isize) && !is_path => {
            let is_fault = waits
                && (1..=EVENTS_MAX).contains(&call.int(2))
                && !user_memory::is_in_reach(call.word(1), call.int(2) as usize * EVENT_BYTES);
            Err(Failure::Errno(if is_fault { libc::EFAULT } else { errno }))
        }
        answer => Ok(answer),
    }
}
