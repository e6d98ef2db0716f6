//! Calls on descriptors of kinds that no file is (an epoll, a timer, a namespace, …): what the kernel says of a file
//! there, which of a placeholder it would not say.

use super::{Answer, Call, Failure};
use crate::user_memory;

/// What the kernel answers where the descriptor of such a call is a file's; `None` if it is no such call.
pub const fn answer_for_file(number: i64) -> Option<i32> {
    match number {
        libc::SYS_epoll_wait
        | libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2
        | libc::SYS_timerfd_settime
        | libc::SYS_timerfd_gettime
        | libc::SYS_inotify_rm_watch
        | libc::SYS_signalfd
        | libc::SYS_signalfd4
        | libc::SYS_setns
        | libc::SYS_fsmount => Some(libc::EINVAL),
        libc::SYS_io_uring_enter | libc::SYS_io_uring_register => Some(libc::EOPNOTSUPP),
        _ => None,
    }
}

/// Whether it is such a call.
pub const fn takes_other_kinds(number: i64) -> bool {
    answer_for_file(number).is_some()
}

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
