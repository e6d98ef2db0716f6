//! The system call table: which calls are ours, and what they mean to LibFS.
//!
//! One rule in three parts. A call whose descriptor or path is not ours goes to the kernel untouched. A
//! call of ours is translated here and served by LibFS. A call of ours that is not served answers
//! ENOSYS or EOPNOTSUPP and is counted, so that `cuesta status` can say what a program missed.

use crate::call::{Answer, Call, Failure, kinds, numbers};
use crate::calls::attributes::extended::{self, Subject};
use crate::calls::attributes::{flags, stat};
use crate::calls::data::{asynchronous, contents, mapping, transfer, truncation};
use crate::calls::descriptors::{control, ioctl, locks, ready, sockets};
use crate::calls::kinds::{mounts, other_kinds, stand_ins};
use crate::calls::names::{changing, directories, open_how, opening};
use crate::calls::paths::refused;
use crate::calls::programs::program;
use crate::calls::rights::{credentials, landlock};
use crate::memory::user_memory;
use crate::process;
use crate::thread::{self, signals};

const FOLLOWING: Subject = Subject::Path { directory: None, follow: true };
const LINK: Subject = Subject::Path { directory: None, follow: false };

/// Serves one call.
#[inline]
pub fn serve(number: usize, arguments: [usize; 6]) -> Answer {
    let call = Call { number, arguments };
    match number as i64 {
        libc::SYS_read => contents::read(&call),
        libc::SYS_write => contents::write(&call),
        libc::SYS_pread64 => contents::pread(&call),
        libc::SYS_pwrite64 => contents::pwrite(&call),
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => contents::read_vector(&call),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => contents::write_vector(&call),
        libc::SYS_lseek => contents::seek(&call),
        libc::SYS_fsync | libc::SYS_fdatasync => contents::sync_file(&call),
        libc::SYS_syncfs => contents::sync_store(&call),
        libc::SYS_sync_file_range => contents::sync_range(&call),
        libc::SYS_sync => contents::sync_all(),
        libc::SYS_ftruncate => contents::truncate_open(&call),
        libc::SYS_truncate => truncation::truncate(&call),
        libc::SYS_fallocate => contents::allocate(&call),
        libc::SYS_fadvise64 => contents::advise(&call),
        libc::SYS_readahead => contents::read_ahead(&call),
        libc::SYS_copy_file_range => transfer::copy_range(&call),
        libc::SYS_sendfile => transfer::send_file(&call),
        libc::SYS_splice => transfer::splice(&call),
        libc::SYS_tee => transfer::tee(&call),
        libc::SYS_vmsplice => transfer::splice_memory(&call),
        libc::SYS_kcmp => control::compare(&call),
        libc::SYS_getsockname
        | libc::SYS_getpeername
        | libc::SYS_getsockopt
        | libc::SYS_setsockopt
        | libc::SYS_listen
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_shutdown => sockets::refuse_file(&call).and(Err(Failure::NotOurs)),
        libc::SYS_recvfrom => sockets::refuse_file_with_buffer(&call).and(Err(Failure::NotOurs)),
        libc::SYS_poll | libc::SYS_ppoll => ready::poll(&call),
        libc::SYS_select | libc::SYS_pselect6 => ready::select(&call),
        libc::SYS_sendmsg => sockets::send_message(&call),
        libc::SYS_bind => sockets::refuse_file(&call).and_then(|()| stand_ins::bind(&call)),
        libc::SYS_connect => sockets::refuse_file(&call).and_then(|()| stand_ins::connect(&call)),
        libc::SYS_sendto => sockets::refuse_file_with_buffer(&call).and_then(|()| stand_ins::send_to(&call)),
        libc::SYS_sendmmsg => sockets::send_messages(&call),
        libc::SYS_recvmsg => sockets::receive_message(&call),
        libc::SYS_recvmmsg => sockets::receive_messages(&call),
        libc::SYS_pidfd_getfd => sockets::take_from_process(&call),
        libc::SYS_mmap => mapping::map(&call),
        libc::SYS_open => opening::open(&call, None, 0, call.int(1), call.word(2)),
        libc::SYS_creat => {
            opening::open(&call, None, 0, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, call.word(1))
        }
        libc::SYS_openat => opening::open(&call, Some(0), 1, call.int(2), call.word(3)),
        libc::SYS_openat2 => open_how::open(&call),
        libc::SYS_mount => mounts::mount(&call),
        libc::SYS_move_mount => mounts::move_mount(&call),
        libc::SYS_umount2 => mounts::unmount(&call),
        libc::SYS_pivot_root => mounts::pivot_root(&call),
        libc::SYS_chroot => mounts::change_root(&call),
        libc::SYS_open_tree => opening::open_tree(&call),
        libc::SYS_mkdir => changing::make_directory(&call, None, 0, call.word(1)),
        libc::SYS_mkdirat => changing::make_directory(&call, Some(0), 1, call.word(2)),
        libc::SYS_mknod => changing::make_node(&call, None, 0, call.word(1), call.word(2)),
        libc::SYS_mknodat => changing::make_node(&call, Some(0), 1, call.word(2), call.word(3)),
        libc::SYS_rmdir => changing::remove(&call, None, 0, true),
        libc::SYS_unlink => changing::remove(&call, None, 0, false),
        libc::SYS_unlinkat => match call.int(2) {
            0 => changing::remove(&call, Some(0), 1, false),
            libc::AT_REMOVEDIR => changing::remove(&call, Some(0), 1, true),
            _ => Err(Failure::NotOurs),
        },
        libc::SYS_rename => changing::rename(&call, (None, 0), (None, 1), 0),
        libc::SYS_renameat => changing::rename(&call, (Some(0), 1), (Some(2), 3), 0),
        libc::SYS_renameat2 => changing::rename(&call, (Some(0), 1), (Some(2), 3), call.word(4) as u32),
        libc::SYS_link => changing::link(&call, (None, 0), (None, 1), 0),
        libc::SYS_linkat => changing::link(&call, (Some(0), 1), (Some(2), 3), call.int(4)),
        libc::SYS_symlink => changing::symlink(&call, None, 1),
        libc::SYS_symlinkat => changing::symlink(&call, Some(1), 2),
        libc::SYS_readlink => changing::read_link(&call, None, 0, call.word(1), call.word(2)),
        libc::SYS_readlinkat => changing::read_link(&call, Some(0), 1, call.word(2), call.word(3)),
        libc::SYS_stat => stat::stat(&call, None, 0, 1, 0),
        libc::SYS_lstat => stat::stat(&call, None, 0, 1, libc::AT_SYMLINK_NOFOLLOW),
        libc::SYS_newfstatat => stat::stat(&call, Some(0), 1, 2, call.int(3)),
        libc::SYS_fstat => stat::stat_open(&call),
        libc::SYS_statx => stat::statx(&call),
        libc::SYS_access => stat::access(&call, None, 0, call.int(1), 0),
        libc::SYS_faccessat => stat::access(&call, Some(0), 1, call.int(2), 0),
        libc::SYS_faccessat2 => stat::access(&call, Some(0), 1, call.int(2), call.int(3)),
        libc::SYS_chmod => stat::change_mode(&call, None, 0, call.word(1), 0),
        libc::SYS_fchmodat => stat::change_mode(&call, Some(0), 1, call.word(2), 0),
        libc::SYS_fchmodat2 => stat::change_mode(&call, Some(0), 1, call.word(2), call.int(3)),
        libc::SYS_fchmod => stat::change_mode_open(&call),
        libc::SYS_chown => stat::change_owner(&call, None, 0, 1, 0),
        libc::SYS_lchown => stat::change_owner(&call, None, 0, 1, libc::AT_SYMLINK_NOFOLLOW),
        libc::SYS_fchownat => stat::change_owner(&call, Some(0), 1, 2, call.int(4)),
        libc::SYS_fchown => stat::change_owner_open(&call),
        libc::SYS_utimensat => stat::change_times(&call),
        libc::SYS_utime | libc::SYS_utimes | libc::SYS_futimesat => stat::change_times_old(&call),
        libc::SYS_statfs => stat::statfs(&call),
        libc::SYS_fstatfs => stat::statfs_open(&call),
        libc::SYS_getxattr => extended::get(&call, FOLLOWING),
        libc::SYS_lgetxattr => extended::get(&call, LINK),
        libc::SYS_fgetxattr => extended::get(&call, Subject::Descriptor),
        libc::SYS_listxattr => extended::list(&call, FOLLOWING),
        libc::SYS_llistxattr => extended::list(&call, LINK),
        libc::SYS_flistxattr => extended::list(&call, Subject::Descriptor),
        libc::SYS_setxattr => extended::set(&call, FOLLOWING),
        libc::SYS_lsetxattr => extended::set(&call, LINK),
        libc::SYS_fsetxattr => extended::set(&call, Subject::Descriptor),
        libc::SYS_removexattr => extended::remove(&call, FOLLOWING),
        libc::SYS_lremovexattr => extended::remove(&call, LINK),
        libc::SYS_fremovexattr => extended::remove(&call, Subject::Descriptor),
        numbers::GETXATTRAT => extended::get_below(&call),
        numbers::LISTXATTRAT => extended::list_below(&call),
        numbers::SETXATTRAT => extended::set_below(&call),
        numbers::REMOVEXATTRAT => extended::remove_below(&call),
        numbers::CACHESTAT => flags::cached(&call),
        libc::SYS_getdents | libc::SYS_getdents64 => directories::read_entries(&call),
        libc::SYS_chdir => directories::change(&call),
        libc::SYS_fchdir => directories::change_to_open(&call),
        libc::SYS_getcwd => directories::current(&call),
        libc::SYS_close => control::close(&call),
        libc::SYS_close_range => control::close_range(&call),
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => control::duplicate(&call),
        libc::SYS_fcntl => control::control(&call),
        libc::SYS_flock => locks::lock_file(&call),
        libc::SYS_ioctl => ioctl::serve(&call),
        libc::SYS_epoll_ctl => ready::watch(&call),
        libc::SYS_rt_sigaction => change_signal(&call),
        libc::SYS_sigaltstack => change_signal_stack(&call),
        libc::SYS_execve => program::execute(&call, None, 0, 1, 2, 0),
        libc::SYS_execveat => program::execute(&call, Some(0), 1, 2, 3, call.int(4)),
        libc::SYS_io_submit => asynchronous::submit(&call),
        libc::SYS_io_uring_setup => call.unserved(libc::ENOSYS),
        libc::SYS_userfaultfd => {
            user_memory::expect_served_faults();
            Err(Failure::NotOurs)
        }
        libc::SYS_umask => control::change_umask(&call),
        libc::SYS_setrlimit | libc::SYS_prlimit64 => control::change_limits(&call),
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => program::make_process(&call),
        // The door has the rest (see `door::proxy`).
        libc::SYS_prctl | libc::SYS_seccomp => Err(Failure::NotOurs),
        libc::SYS_landlock_create_ruleset => landlock::create_ruleset(&call),
        libc::SYS_landlock_add_rule => landlock::add_rule(&call),
        libc::SYS_landlock_restrict_self => landlock::restrict_self(&call),
        libc::SYS_exit_group => {
            process::leave();
            Err(Failure::NotOurs)
        }
        // What belongs to the thread may change by it; a file of ours is none it could enter.
        libc::SYS_setns if call.pin(0).is_err() => credentials::change(&call),
        number if kinds::is_changed_by(number) && !kinds::takes_other_kinds(number) => {
            credentials::change(&call)
        }
        number => match kinds::answer_for_file(number) {
            Some(errno) => other_kinds::refuse(&call, errno),
            None => refused::refuse(&call),
        },
    }
}

fn change_signal(call: &Call) -> Answer {
    let [signal, new, old, set_bytes, ..] = call.arguments;
    if set_bytes != size_of::<u64>() {
        return Err(Failure::NotOurs);
    }
    let new = if new == 0 { None } else { Some(user_memory::read(new)?) };
    let mut before = signals::Action::default();
    let answer = signals::change_action(signal as i32, new.as_ref(), Some(&mut before));
    if answer == 0 && old != 0 {
        user_memory::write(old, &before)?;
    }
    Ok(answer)
}

fn change_signal_stack(call: &Call) -> Answer {
    let answer = call.kernel(call.arguments);
    if answer == 0 && call.word(0) != 0 {
        // struct sigaltstack: base, flags (and padding), size.
        let [base, flags, bytes]: [usize; 3] = user_memory::read(call.word(0))?;
        match flags as i32 & libc::SS_DISABLE {
            0 => thread::set_alternate_stack(base, bytes),
            _ => thread::set_alternate_stack(0, 0),
        }
    }
    Ok(answer)
}
