//! Kinds of calls that the filter and the table tell by their numbers.

/// Whether system call `number` changes whose authority a thread has.
pub const fn is_changed_by(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setgroups
            | libc::SYS_setfsuid
            | libc::SYS_setfsgid
            | libc::SYS_capset
            | libc::SYS_unshare
            | libc::SYS_setns
    )
}

/// The kernel's answer where the descriptor of such a call is a file's; `None` if it is no such call.
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
