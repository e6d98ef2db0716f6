//! The tables the entry code filters on before any state is saved.
//!
//! | class | looked at |
//! |---|---|
//! | `NEVER` | nothing: the call cannot concern the store |
//! | `FD…` | the class of one or two descriptors |
//! | `PATH…`, `AT…` | whether a path may lead below the prefix, or name a descriptor of ours |
//! | `ALWAYS` | decided in Rust |
//!
//! The filter may err only towards "ours": the door decides precisely.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::call::{kinds, numbers};
use crate::memory::user_memory;

/// Not a call about files.
pub const CLASS_NEVER: u8 = 0;
/// First argument is a descriptor.
pub const CLASS_FD: u8 = 1;
/// First and second arguments are descriptors.
pub const CLASS_FD_FD: u8 = 2;
/// First and third arguments are descriptors.
pub const CLASS_FD_THIRD: u8 = 3;
/// Fifth argument is a descriptor.
pub const CLASS_FD_FIFTH: u8 = 4;
/// First argument is a path.
pub const CLASS_PATH: u8 = 5;
/// First and second arguments are paths.
pub const CLASS_PATH_PATH: u8 = 6;
/// Second argument is a path.
pub const CLASS_PATH_SECOND: u8 = 7;
/// Directory descriptor and path.
pub const CLASS_AT: u8 = 8;
/// Directory descriptor and path, twice.
pub const CLASS_AT_AT: u8 = 9;
/// Directory descriptor and path at the second and third argument.
pub const CLASS_AT_THIRD: u8 = 10;
/// Always decided in Rust.
pub const CLASS_ALWAYS: u8 = 11;
/// Decided in Rust once this process has to do with the store, else the kernel's.
pub const CLASS_ACTIVE: u8 = 13;
/// Decided in Rust once this process holds something that ends with it, else the kernel's.
pub const CLASS_LEAVING: u8 = 14;
/// clone, clone3, fork, vfork: made by the stub itself, on no stack.
pub const CLASS_CLONE: u8 = 12;

/// Bit of a call's number, on its way to Rust: it is on a path, and the kernel has answered ENOENT.
pub const FOUND_NOTHING_BIT: usize = 62;
/// Bit of a call's number, on its way back: it is on a path, and not ours. Error numbers have this bit and the one above,
/// other answers, offsets of any size among them, have at most the one above.
pub const TRY_KERNEL_BIT: usize = 63;

/// System call numbers the class table covers.
pub const SYSCALL_LIMIT: usize = 512;
/// Descriptors the table covers; higher ones are never ours.
pub const DESCRIPTOR_LIMIT: usize = 65_536;
/// Longest prefix, with its terminating zero.
pub const PREFIX_BYTES: usize = 4096;

/// The class of each system call, as the entry code reads it: of the clone family only what makes a
/// process arrives there, to be prepared for.
pub static CLASSES: [u8; SYSCALL_LIMIT] = entry_classes();

/// What each descriptor is: [`own_class`] the application's own, else see `descriptors`.
pub static DESCRIPTORS: [AtomicU8; DESCRIPTOR_LIMIT] = [const { AtomicU8::new(0) }; DESCRIPTOR_LIMIT];

/// The prefix, zero-terminated; empty (every absolute path suspect) until configured.
pub static PREFIX: [AtomicU8; PREFIX_BYTES] = [const { AtomicU8::new(0) }; PREFIX_BYTES];

/// Folders in which paths name descriptors.
pub static PROC_FOLDER: [u8; 7] = *b"/proc/\0";
/// As above.
pub static DEVICE_FOLDER: [u8; 6] = *b"/dev/\0";

/// Non-zero while the working directory lies in the store.
pub static CWD_VIRTUAL: AtomicU32 = AtomicU32::new(0);

/// Non-zero once this process (or the one it was forked from) has to do with the store.
pub static ACTIVE: AtomicU32 = AtomicU32::new(0);

/// Non-zero once this process (or the one it was forked from) has a session or descriptors of the store.
pub static HOLDS: AtomicU32 = AtomicU32::new(0);

/// First bytes with which a relative path may lead below the prefix.
pub static FIRST_BYTES: [AtomicU8; 256] = [const { AtomicU8::new(0) }; 256];

/// Bytes of the prefix; 0 while every path is to be looked at, or it is longer than is compared by [`is_below_prefix`].
static PREFIX_LENGTH: AtomicU8 = AtomicU8::new(0);
/// A mapping may end with each.
const PAGE_BYTES: usize = 4096;
/// Longest prefix that function compares.
const COMPARED_BYTES: usize = 63;

/// Whether [`is_below_prefix`] can tell.
#[inline]
pub fn compares_paths() -> bool {
    PREFIX_LENGTH.load(Ordering::Relaxed) != 0
}

/// Whether the absolute path at `address` is the prefix or leads below it, going by its first bytes. Not for certain where it
/// may end with the last page of a mapping.
#[inline]
pub fn is_below_prefix(address: usize) -> bool {
    let length = usize::from(PREFIX_LENGTH.load(Ordering::Relaxed));
    let mut head = [0u8; COMPARED_BYTES + 1];
    let head = &mut head[..=length];
    length != 0
        && address % PAGE_BYTES + length < PAGE_BYTES
        && user_memory::read_bytes(address, head).is_ok()
        && matches!(head[length], 0 | b'/')
        && head[..length].iter().zip(&PREFIX).all(|(byte, slot)| *byte == slot.load(Ordering::Relaxed))
}

/// Tells the filter where the store is. `prefix` is absolute and normal: no `.`, `..`, `//`.
pub fn set_prefix(prefix: &[u8]) {
    for (slot, byte) in PREFIX.iter().zip(prefix) {
        slot.store(*byte, Ordering::Relaxed);
    }
    let compared = if prefix.len() <= COMPARED_BYTES { prefix.len() as u8 } else { 0 };
    PREFIX_LENGTH.store(compared, Ordering::Relaxed);
    FIRST_BYTES[usize::from(b'.')].store(1, Ordering::Relaxed);
    for component in prefix.split(|byte| *byte == b'/') {
        if let Some(first) = component.first() {
            FIRST_BYTES[usize::from(*first)].store(1, Ordering::Relaxed);
        }
    }
}

/// Class of a descriptor of the application's own while its calls are watched.
const CLASS_WATCHED: u8 = 3;

/// Class of the application's own descriptors.
static OWN_CLASS: AtomicU8 = AtomicU8::new(0);

/// From now on every call that names a file by path or descriptor is looked at in Rust.
pub fn watch_all() {
    OWN_CLASS.store(CLASS_WATCHED, Ordering::Relaxed);
    for class in &DESCRIPTORS {
        let _ = class.compare_exchange(0, CLASS_WATCHED, Ordering::Relaxed, Ordering::Relaxed);
    }
    suspect_all_paths();
}

/// From now on every path is looked at in Rust.
pub fn suspect_all_paths() {
    PREFIX[0].store(0, Ordering::Relaxed);
    PREFIX_LENGTH.store(0, Ordering::Relaxed);
    for first in &FIRST_BYTES {
        first.store(1, Ordering::Relaxed);
    }
}

/// The class of a descriptor that is not ours: 0, unless all calls are watched.
#[inline]
pub fn own_class() -> u8 {
    OWN_CLASS.load(Ordering::Relaxed)
}

const fn entry_classes() -> [u8; SYSCALL_LIMIT] {
    let mut classes = [CLASS_NEVER; SYSCALL_LIMIT];
    let mut number = 0;
    while number < SYSCALL_LIMIT {
        let class = class_of(number as i64);
        classes[number] = if class == CLASS_CLONE { CLASS_ACTIVE } else { class };
        number += 1;
    }
    classes
}

/// Whether system call `number` is one on paths that the filter looks at.
#[inline]
pub fn is_on_path(number: usize) -> bool {
    CLASSES.get(number).is_some_and(|class| (CLASS_PATH..=CLASS_AT_THIRD).contains(class))
}

/// The class of system call `number`.
pub const fn class_of(number: i64) -> u8 {
    match number {
        libc::SYS_read
        | libc::SYS_write
        | libc::SYS_pread64
        | libc::SYS_pwrite64
        | libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_preadv
        | libc::SYS_pwritev
        | libc::SYS_preadv2
        | libc::SYS_pwritev2
        | libc::SYS_lseek
        | libc::SYS_fstat
        | libc::SYS_close
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_fchmod
        | libc::SYS_fchown
        | libc::SYS_fcntl
        | libc::SYS_flock
        | libc::SYS_dup
        | libc::SYS_fstatfs
        | libc::SYS_syncfs
        | libc::SYS_sync_file_range
        | libc::SYS_fadvise64
        | libc::SYS_readahead
        | libc::SYS_flistxattr
        | libc::SYS_fremovexattr
        | libc::SYS_vmsplice
        | libc::SYS_finit_module
        | libc::SYS_open_by_handle_at
        | libc::SYS_getsockname
        | libc::SYS_getpeername
        | libc::SYS_getsockopt
        | libc::SYS_setsockopt
        | libc::SYS_listen
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_shutdown
        | libc::SYS_recvfrom
        | numbers::CACHESTAT
        | numbers::QUOTACTL_FD => CLASS_FD,
        number if kinds::takes_other_kinds(number) => CLASS_FD,
        libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_sendfile | libc::SYS_tee | libc::SYS_kexec_file_load => {
            CLASS_FD_FD
        }
        libc::SYS_copy_file_range | libc::SYS_splice | libc::SYS_epoll_ctl => CLASS_FD_THIRD,
        libc::SYS_mmap => CLASS_FD_FIFTH,
        libc::SYS_open
        | libc::SYS_creat
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_access
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_unlink
        | libc::SYS_readlink
        | libc::SYS_truncate
        | libc::SYS_chmod
        | libc::SYS_chown
        | libc::SYS_lchown
        | libc::SYS_utime
        | libc::SYS_utimes
        | libc::SYS_statfs
        | libc::SYS_mknod
        | libc::SYS_getxattr
        | libc::SYS_lgetxattr
        | libc::SYS_setxattr
        | libc::SYS_lsetxattr
        | libc::SYS_listxattr
        | libc::SYS_llistxattr
        | libc::SYS_removexattr
        | libc::SYS_lremovexattr
        | libc::SYS_chroot
        | libc::SYS_acct
        | libc::SYS_swapon
        | libc::SYS_swapoff
        | libc::SYS_umount2 => CLASS_PATH,
        libc::SYS_rename | libc::SYS_link | libc::SYS_mount | libc::SYS_pivot_root => CLASS_PATH_PATH,
        libc::SYS_symlink | libc::SYS_quotactl => CLASS_PATH_SECOND,
        libc::SYS_openat
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_mkdirat
        | libc::SYS_unlinkat
        | libc::SYS_readlinkat
        | libc::SYS_fchmodat
        | libc::SYS_fchmodat2
        | libc::SYS_fchownat
        | libc::SYS_utimensat
        | libc::SYS_futimesat
        | libc::SYS_mknodat
        | libc::SYS_name_to_handle_at
        | libc::SYS_open_tree
        | libc::SYS_fspick
        | libc::SYS_mount_setattr
        | numbers::SETXATTRAT..=numbers::FILE_SETATTR => CLASS_AT,
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat | libc::SYS_move_mount => CLASS_AT_AT,
        libc::SYS_symlinkat => CLASS_AT_THIRD,
        libc::SYS_rt_sigaction
        | libc::SYS_sigaltstack
        | libc::SYS_execve
        | libc::SYS_execveat
        | libc::SYS_chdir
        // What an absolute path means depends on its flags.
        | libc::SYS_openat2
        | libc::SYS_io_uring_setup
        // A received file may be this process's first of the store.
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_pidfd_getfd
        | libc::SYS_bind
        | libc::SYS_connect
        // As another user it may not reach the store any more: it takes a way along.
        | libc::SYS_setuid
        | libc::SYS_setreuid
        | libc::SYS_setresuid
        // A program may forbid itself something before it comes to the store: that holds there, too.
        | libc::SYS_landlock_create_ruleset
        | libc::SYS_landlock_add_rule
        | libc::SYS_landlock_restrict_self
        // The thread that serves faults may make calls of ours.
        | libc::SYS_userfaultfd
        | libc::SYS_umask => CLASS_ALWAYS,
        libc::SYS_fchdir
        | libc::SYS_getcwd
        // Lists of descriptors show some of this library's.
        | libc::SYS_getdents
        | libc::SYS_getdents64
        | libc::SYS_sync
        | libc::SYS_setrlimit
        | libc::SYS_prlimit64
        | libc::SYS_poll
        | libc::SYS_ppoll
        | libc::SYS_select
        | libc::SYS_pselect6
        | libc::SYS_sendmsg
        | libc::SYS_sendto
        | libc::SYS_sendmmsg
        | libc::SYS_close_range
        // The kernel looks at the watcher, which may be a file of ours, before it looks at the path.
        | libc::SYS_inotify_add_watch
        | libc::SYS_fanotify_mark
        | libc::SYS_fsconfig
        | libc::SYS_bpf
        | libc::SYS_kcmp
        // Newer kernels take the number of the working directory in the place of a descriptor.
        | libc::SYS_fgetxattr
        | libc::SYS_fsetxattr
        // Some requests are about a second descriptor, which may stand in a structure.
        | libc::SYS_ioctl
        // A filter of system calls may come.
        | libc::SYS_prctl
        | libc::SYS_seccomp
        | libc::SYS_io_submit => CLASS_ACTIVE,
        libc::SYS_exit_group => CLASS_LEAVING,
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => CLASS_CLONE,
        number if kinds::is_changed_by(number) => CLASS_ACTIVE,
        _ => CLASS_NEVER,
    }
}

#[cfg(test)]
mod tests {
    use super::{CLASS_NEVER, class_of};

    const LINUX_6_17: i64 = 469;

    #[test]
    fn no_system_call_about_files_passes_unexamined() {
        let table = include_str!("../../tests/system_calls.txt");
        let mut next = 0;
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.splitn(3, ' ');
            let number: i64 = words.next().and_then(|word| word.parse().ok()).expect("a number");
            let (name, what) = (words.next().expect("a name"), words.next().expect("what it takes"));
            // There are no calls in between.
            assert!(number == next || (number, next) == (424, 335), "{next} is missing before {name}");
            let is_examined = what == "examined" || crate::call::kinds::is_changed_by(number);
            assert_eq!(class_of(number) != CLASS_NEVER, is_examined, "{number} {name}: {what}");
            next = number + 1;
        }
        assert_eq!(next, LINUX_6_17 + 1);
    }
}
