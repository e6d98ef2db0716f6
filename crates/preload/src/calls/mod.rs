//! The system call table: which calls are ours, and what they mean to LibFS.
//!
//! One rule in three parts. A call whose descriptor or path is not ours goes to the kernel untouched. A
//! call of ours is translated here and served by LibFS. A call of ours that is not served answers
//! ENOSYS or EOPNOTSUPP and is counted, so that `cuesta status` can say what a program missed.

mod asynchronous;
mod attributes;
mod by_mount;
mod control;
mod copies;
mod data;
mod descriptor_names;
mod directories;
mod extended;
mod flags;
mod ioctl;
mod landlock;
mod links;
mod loaders;
mod locks;
mod memory;
mod mounts;
mod names;
mod needed;
mod open_how;
mod other_kinds;
mod own_listing;
pub mod path;
mod program;
mod program_file;
mod ready;
pub mod running;
mod sockets;
mod stand_ins;
mod transfer;
mod two_names;
mod variables;

pub use attributes::device;
pub use copies::{after_fork as forget_copies, before_child as copy_for_child, move_copy};
use cuesta_libfs::Error;
use extended::Subject;
pub use links::{look_again, look_first, must_look_first, note_place};
pub use other_kinds::takes_other_kinds;
pub use program::ExecImage;
pub use sockets::brings_ours;

use crate::descriptors::{self, Pin};
use crate::{credentials, numbers, process, proxy, signals, thread, user_memory};

/// Why a call has no answer of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The kernel decides, as if we were not here.
    NotOurs,
    /// The call failed.
    Errno(i32),
    /// The call is about the store and not served: counted, and answered with an error number.
    Unserved(i32),
    /// A file would get larger than the process allows itself: EFBIG, and a signal.
    OverLimit,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::OverLimit => Failure::OverLimit,
            error => Failure::Errno(error.errno()),
        }
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Self {
        Failure::Errno(errno.raw_os_error())
    }
}

/// What a call answers.
pub type Answer = Result<isize, Failure>;

/// One intercepted call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: usize,
    /// Its arguments.
    pub arguments: [usize; 6],
}

impl Call {
    /// The argument at `index` as a C int.
    pub fn int(&self, index: usize) -> i32 {
        self.arguments[index] as i32
    }

    /// The argument at `index` as it is.
    pub fn word(&self, index: usize) -> usize {
        self.arguments[index]
    }

    /// The description behind the descriptor at argument `index`.
    #[inline]
    pub fn pin(&self, index: usize) -> Result<Pin, Failure> {
        let fd = self.int(index);
        match descriptors::pin(fd) {
            Some(pin) => Ok(pin),
            // To the application a descriptor of our own does not exist.
            None if descriptors::is_hidden(fd) => Err(Failure::Errno(libc::EBADF)),
            None => Err(Failure::NotOurs),
        }
    }

    /// Makes the call as it came, or with other arguments, and answers what the kernel answers.
    pub fn kernel(&self, arguments: [usize; 6]) -> isize {
        // SAFETY: a call the application asked for, with arguments that mean the same.
        unsafe { crate::arch::syscall(self.number, arguments) }
    }

    /// Counts the call as one of ours that is not served.
    pub fn unserved(&self, errno: i32) -> Answer {
        if let Some(client) = process::attached() {
            client.count_unserved(self.number);
        }
        Err(Failure::Unserved(errno))
    }
}

const FOLLOWING: Subject = Subject::Path { directory: None, follow: true };
const LINK: Subject = Subject::Path { directory: None, follow: false };

/// Serves one call.
#[inline]
pub fn serve(number: usize, arguments: [usize; 6]) -> Answer {
    let call = Call { number, arguments };
    match number as i64 {
        libc::SYS_read => data::read(&call),
        libc::SYS_write => data::write(&call),
        libc::SYS_pread64 => data::pread(&call),
        libc::SYS_pwrite64 => data::pwrite(&call),
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => data::read_vector(&call),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => data::write_vector(&call),
        libc::SYS_lseek => data::seek(&call),
        libc::SYS_fsync | libc::SYS_fdatasync => data::sync_file(&call),
        libc::SYS_syncfs => data::sync_store(&call),
        libc::SYS_sync_file_range => data::sync_range(&call),
        libc::SYS_sync => data::sync_all(),
        libc::SYS_ftruncate => data::truncate_open(&call),
        libc::SYS_truncate => data::truncate(&call),
        libc::SYS_fallocate => data::allocate(&call),
        libc::SYS_fadvise64 => data::advise(&call),
        libc::SYS_readahead => data::read_ahead(&call),
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
        libc::SYS_mmap => memory::map(&call),
        libc::SYS_open => names::open(&call, None, 0, call.int(1), call.word(2)),
        libc::SYS_creat => {
            names::open(&call, None, 0, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, call.word(1))
        }
        libc::SYS_openat => names::open(&call, Some(0), 1, call.int(2), call.word(3)),
        libc::SYS_openat2 => open_how::open(&call),
        libc::SYS_mount => mounts::mount(&call),
        libc::SYS_move_mount => mounts::move_mount(&call),
        libc::SYS_umount2 => mounts::unmount(&call),
        libc::SYS_pivot_root => mounts::pivot_root(&call),
        libc::SYS_chroot => mounts::change_root(&call),
        libc::SYS_open_tree => names::open_tree(&call),
        libc::SYS_mkdir => names::make_directory(&call, None, 0, call.word(1)),
        libc::SYS_mkdirat => names::make_directory(&call, Some(0), 1, call.word(2)),
        libc::SYS_mknod => names::make_node(&call, None, 0, call.word(1), call.word(2)),
        libc::SYS_mknodat => names::make_node(&call, Some(0), 1, call.word(2), call.word(3)),
        libc::SYS_rmdir => names::remove(&call, None, 0, true),
        libc::SYS_unlink => names::remove(&call, None, 0, false),
        libc::SYS_unlinkat => match call.int(2) {
            0 => names::remove(&call, Some(0), 1, false),
            libc::AT_REMOVEDIR => names::remove(&call, Some(0), 1, true),
            _ => Err(Failure::NotOurs),
        },
        libc::SYS_rename => names::rename(&call, (None, 0), (None, 1), 0),
        libc::SYS_renameat => names::rename(&call, (Some(0), 1), (Some(2), 3), 0),
        libc::SYS_renameat2 => names::rename(&call, (Some(0), 1), (Some(2), 3), call.word(4) as u32),
        libc::SYS_link => names::link(&call, (None, 0), (None, 1), 0),
        libc::SYS_linkat => names::link(&call, (Some(0), 1), (Some(2), 3), call.int(4)),
        libc::SYS_symlink => names::symlink(&call, None, 1),
        libc::SYS_symlinkat => names::symlink(&call, Some(1), 2),
        libc::SYS_readlink => names::read_link(&call, None, 0, call.word(1), call.word(2)),
        libc::SYS_readlinkat => names::read_link(&call, Some(0), 1, call.word(2), call.word(3)),
        libc::SYS_stat => attributes::stat(&call, None, 0, 1, 0),
        libc::SYS_lstat => attributes::stat(&call, None, 0, 1, libc::AT_SYMLINK_NOFOLLOW),
        libc::SYS_newfstatat => attributes::stat(&call, Some(0), 1, 2, call.int(3)),
        libc::SYS_fstat => attributes::stat_open(&call),
        libc::SYS_statx => attributes::statx(&call),
        libc::SYS_access => attributes::access(&call, None, 0, call.int(1), 0),
        libc::SYS_faccessat => attributes::access(&call, Some(0), 1, call.int(2), 0),
        libc::SYS_faccessat2 => attributes::access(&call, Some(0), 1, call.int(2), call.int(3)),
        libc::SYS_chmod => attributes::change_mode(&call, None, 0, call.word(1), 0),
        libc::SYS_fchmodat => attributes::change_mode(&call, Some(0), 1, call.word(2), 0),
        libc::SYS_fchmodat2 => attributes::change_mode(&call, Some(0), 1, call.word(2), call.int(3)),
        libc::SYS_fchmod => attributes::change_mode_open(&call),
        libc::SYS_chown => attributes::change_owner(&call, None, 0, 1, 0),
        libc::SYS_lchown => attributes::change_owner(&call, None, 0, 1, libc::AT_SYMLINK_NOFOLLOW),
        libc::SYS_fchownat => attributes::change_owner(&call, Some(0), 1, 2, call.int(4)),
        libc::SYS_fchown => attributes::change_owner_open(&call),
        libc::SYS_utimensat => attributes::change_times(&call),
        libc::SYS_utime | libc::SYS_utimes | libc::SYS_futimesat => attributes::change_times_old(&call),
        libc::SYS_statfs => attributes::statfs(&call),
        libc::SYS_fstatfs => attributes::statfs_open(&call),
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
        libc::SYS_prctl | libc::SYS_seccomp => proxy::before_filter(&call),
        libc::SYS_landlock_create_ruleset => landlock::create_ruleset(&call),
        libc::SYS_landlock_add_rule => landlock::add_rule(&call),
        libc::SYS_landlock_restrict_self => landlock::restrict_self(&call),
        libc::SYS_exit_group => {
            process::leave();
            Err(Failure::NotOurs)
        }
        // What belongs to the thread may change by it; a file of ours is none it could enter.
        libc::SYS_setns if call.pin(0).is_err() => credentials::change(&call),
        number if credentials::is_changed_by(number) && !other_kinds::takes_other_kinds(number) => {
            credentials::change(&call)
        }
        number => match other_kinds::answer_for_file(number) {
            Some(errno) => other_kinds::refuse(&call, errno),
            None => path::refuse(&call),
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
