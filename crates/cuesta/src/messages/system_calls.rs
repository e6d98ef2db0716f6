//! Names of the system calls a file system can meet.

use libc::c_long;

/// The first of four calls that libc has no names for yet.
const SYS_SETXATTRAT: c_long = 463;

/// The name of a system call, or its number if it is not in the tables.
pub fn name(number: u32) -> String {
    let named = |table: &[(c_long, &'static str)]| {
        table.iter().find(|&&(call, _)| call == c_long::from(number)).map(|&(_, name)| name)
    };
    match named(EVERYWHERE).or_else(|| named(X86_64_ONLY)) {
        Some(name) => name.to_owned(),
        None => format!("system call {number}"),
    }
}

const EVERYWHERE: &[(c_long, &str)] = &[
    (libc::SYS_read, "read"),
    (libc::SYS_write, "write"),
    (libc::SYS_close, "close"),
    (libc::SYS_fstat, "fstat"),
    (libc::SYS_lseek, "lseek"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_munmap, "munmap"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_sendfile, "sendfile"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_truncate, "truncate"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_getdents64, "getdents64"),
    (libc::SYS_getcwd, "getcwd"),
    (libc::SYS_chdir, "chdir"),
    (libc::SYS_fchdir, "fchdir"),
    (libc::SYS_fchmod, "fchmod"),
    (libc::SYS_fchown, "fchown"),
    (libc::SYS_umask, "umask"),
    (libc::SYS_statfs, "statfs"),
    (libc::SYS_fstatfs, "fstatfs"),
    (libc::SYS_msync, "msync"),
    (libc::SYS_mincore, "mincore"),
    (libc::SYS_madvise, "madvise"),
    (libc::SYS_execve, "execve"),
    (libc::SYS_execveat, "execveat"),
    (libc::SYS_setxattr, "setxattr"),
    (libc::SYS_lsetxattr, "lsetxattr"),
    (libc::SYS_fsetxattr, "fsetxattr"),
    (libc::SYS_getxattr, "getxattr"),
    (libc::SYS_lgetxattr, "lgetxattr"),
    (libc::SYS_fgetxattr, "fgetxattr"),
    (libc::SYS_listxattr, "listxattr"),
    (libc::SYS_llistxattr, "llistxattr"),
    (libc::SYS_flistxattr, "flistxattr"),
    (libc::SYS_removexattr, "removexattr"),
    (libc::SYS_lremovexattr, "lremovexattr"),
    (libc::SYS_fremovexattr, "fremovexattr"),
    (libc::SYS_inotify_add_watch, "inotify_add_watch"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_mkdirat, "mkdirat"),
    (libc::SYS_mknodat, "mknodat"),
    (libc::SYS_fchownat, "fchownat"),
    (libc::SYS_newfstatat, "newfstatat"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_linkat, "linkat"),
    (libc::SYS_symlinkat, "symlinkat"),
    (libc::SYS_readlinkat, "readlinkat"),
    (libc::SYS_fchmodat, "fchmodat"),
    (libc::SYS_faccessat, "faccessat"),
    (libc::SYS_splice, "splice"),
    (libc::SYS_tee, "tee"),
    (libc::SYS_vmsplice, "vmsplice"),
    (libc::SYS_utimensat, "utimensat"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_preadv, "preadv"),
    (libc::SYS_pwritev, "pwritev"),
    (libc::SYS_name_to_handle_at, "name_to_handle_at"),
    (libc::SYS_open_by_handle_at, "open_by_handle_at"),
    (libc::SYS_syncfs, "syncfs"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_recvmmsg, "recvmmsg"),
    (libc::SYS_pidfd_getfd, "pidfd_getfd"),
    (libc::SYS_sendmmsg, "sendmmsg"),
    (libc::SYS_renameat2, "renameat2"),
    (libc::SYS_copy_file_range, "copy_file_range"),
    (libc::SYS_preadv2, "preadv2"),
    (libc::SYS_pwritev2, "pwritev2"),
    (libc::SYS_statx, "statx"),
    (libc::SYS_io_submit, "io_submit"),
    (libc::SYS_io_uring_setup, "io_uring_setup"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_openat2, "openat2"),
    (libc::SYS_faccessat2, "faccessat2"),
    (libc::SYS_readahead, "readahead"),
    (libc::SYS_fadvise64, "fadvise64"),
    (libc::SYS_fanotify_mark, "fanotify_mark"),
    (libc::SYS_mount, "mount"),
    (libc::SYS_umount2, "umount2"),
    (libc::SYS_pivot_root, "pivot_root"),
    (libc::SYS_chroot, "chroot"),
    (libc::SYS_swapon, "swapon"),
    (libc::SYS_acct, "acct"),
    (libc::SYS_quotactl, "quotactl"),
    (libc::SYS_bind, "bind"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_open_tree, "open_tree"),
    (libc::SYS_move_mount, "move_mount"),
    (libc::SYS_fsopen, "fsopen"),
    (libc::SYS_mount_setattr, "mount_setattr"),
    (libc::SYS_quotactl_fd, "quotactl_fd"),
    (libc::SYS_process_madvise, "process_madvise"),
    (libc::SYS_memfd_create, "memfd_create"),
    (libc::SYS_dup, "dup"),
    (libc::SYS_dup3, "dup3"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_sync, "sync"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_epoll_ctl, "epoll_ctl"),
    (SYS_SETXATTRAT, "setxattrat"),
    (SYS_SETXATTRAT + 1, "getxattrat"),
    (SYS_SETXATTRAT + 2, "listxattrat"),
    (SYS_SETXATTRAT + 3, "removexattrat"),
];

#[cfg(not(target_arch = "x86_64"))]
const X86_64_ONLY: &[(c_long, &str)] = &[];

#[cfg(target_arch = "x86_64")]
const X86_64_ONLY: &[(c_long, &str)] = &[
    (libc::SYS_open, "open"),
    (libc::SYS_stat, "stat"),
    (libc::SYS_lstat, "lstat"),
    (libc::SYS_poll, "poll"),
    (libc::SYS_access, "access"),
    (libc::SYS_getdents, "getdents"),
    (libc::SYS_rename, "rename"),
    (libc::SYS_mkdir, "mkdir"),
    (libc::SYS_rmdir, "rmdir"),
    (libc::SYS_creat, "creat"),
    (libc::SYS_link, "link"),
    (libc::SYS_unlink, "unlink"),
    (libc::SYS_symlink, "symlink"),
    (libc::SYS_readlink, "readlink"),
    (libc::SYS_chmod, "chmod"),
    (libc::SYS_chown, "chown"),
    (libc::SYS_lchown, "lchown"),
    (libc::SYS_utime, "utime"),
    (libc::SYS_mknod, "mknod"),
    (libc::SYS_utimes, "utimes"),
    (libc::SYS_futimesat, "futimesat"),
    (libc::SYS_renameat, "renameat"),
    (libc::SYS_sync_file_range, "sync_file_range"),
    (libc::SYS_fchmodat2, "fchmodat2"),
    (libc::SYS_dup2, "dup2"),
    (libc::SYS_select, "select"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named() {
        assert_eq!(name(libc::SYS_copy_file_range as u32), "copy_file_range");
        assert_eq!(name(499), "system call 499");
    }
}
