//! The calls that sequences are made of, and what each argument is drawn from.
//!
//! Left out are calls that would reach past the player: the clock, modules, mounts of the machine, swapping, other processes. Of calls
//! that can (`ioctl`, `mknod`) only arguments are drawn that do not.

use super::place::PAGE;
use libc::c_long;

/// What an argument is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A descriptor.
    Descriptor,
    /// The descriptor of a directory, for a path.
    Directory,
    /// A path.
    Path,
    /// Where a result goes.
    Out,
    /// Where content comes from.
    In,
    /// A number of bytes in memory.
    Length,
    /// An offset in a file, or a size.
    Offset,
    /// A pointer to an offset, or none.
    OffsetPointer,
    /// A file's mode.
    Mode,
    /// The mode and kind of a node.
    Node,
    /// Parts of memory.
    Vector,
    /// How many parts.
    VectorLength,
    /// The name of an attribute.
    Name,
    /// Two times, or none.
    Times,
    /// `struct open_how`.
    How,
    /// `struct flock`.
    Lock,
    /// `struct pollfd`, several.
    Polled,
    /// A set of descriptors.
    DescriptorSet,
    /// `struct epoll_event`.
    Event,
    /// `struct xattr_args`.
    AttributeArguments,
    /// A user or group.
    Owner,
    /// An address that files are mapped at, with room for what length follows.
    Window,
    /// A length for that.
    WindowLength,
    /// Some of these bits, seldom others.
    Bits(&'static [u64]),
    /// One of these, seldom another.
    One(&'static [u64]),
    /// One of these and nothing else.
    Only(&'static [u64]),
}

/// The memory that a call changes and that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Bytes, all.
    Bytes,
    /// `struct stat` at this argument.
    Stat(usize),
    /// `struct statx` at this argument.
    Statx(usize),
    /// Directory entries at this argument.
    Entries(usize),
    /// Names, each with a zero byte behind it, at this argument.
    Names(usize),
    /// Something of the file system's own: only whether the call answers.
    Own,
}

/// The kind of a call's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// A number that is the same everywhere.
    Number,
    /// An address: where it is not in the player's regions, only that it is one.
    Address,
    /// A cookie of the file system's if the descriptor is a directory.
    Position,
    /// Any number.
    Any,
}

/// A call.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// As libc names it, if it does.
    pub name: &'static str,
    /// Of the system call.
    pub number: c_long,
    /// How often it is drawn, compared with others.
    pub weight: u64,
    /// Whether libc's function takes the same arguments.
    pub has_wrapper: bool,
    /// The kinds of its arguments.
    pub kinds: &'static [Kind],
    /// The memory it changes.
    pub leaves: Leaves,
    /// The kind of its answer.
    pub answers: Answers,
}

/// The call of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name == name)
}

const fn call(name: &'static str, number: c_long, weight: u64, kinds: &'static [Kind]) -> Entry {
    Entry { name, number, weight, has_wrapper: false, kinds, leaves: Leaves::Bytes, answers: Answers::Number }
}

impl Entry {
    const fn wrapped(mut self) -> Entry {
        self.has_wrapper = true;
        self
    }

    const fn leaves(mut self, leaves: Leaves) -> Entry {
        self.leaves = leaves;
        self
    }

    const fn answers(mut self, answers: Answers) -> Entry {
        self.answers = answers;
        self
    }
}

const fn bits<const COUNT: usize>(flags: [i32; COUNT]) -> [u64; COUNT] {
    let mut words = [0; COUNT];
    let mut index = 0;
    while index < COUNT {
        words[index] = flags[index] as u32 as u64;
        index += 1;
    }
    words
}

/// Flags of an open.
pub const OPEN_BITS: &[u64] = &bits([
    libc::O_RDWR,
    libc::O_WRONLY,
    libc::O_CREAT,
    libc::O_EXCL,
    libc::O_TRUNC,
    libc::O_APPEND,
    libc::O_NONBLOCK,
    libc::O_DIRECTORY,
    libc::O_NOFOLLOW,
    libc::O_CLOEXEC,
    libc::O_PATH,
    libc::O_TMPFILE,
    libc::O_NOATIME,
    libc::O_SYNC,
]);
const OPEN: Kind = Kind::Bits(OPEN_BITS);
const AT: Kind = Kind::Bits(&bits([libc::AT_SYMLINK_NOFOLLOW, libc::AT_EMPTY_PATH, libc::AT_NO_AUTOMOUNT]));
const LINK_AT: Kind = Kind::Bits(&bits([libc::AT_SYMLINK_FOLLOW, libc::AT_EMPTY_PATH]));
const ACCESS: Kind = Kind::One(&[0, 1, 2, 4, 5, 6, 7]);
const ACCESS_AT: Kind = Kind::Bits(&bits([libc::AT_SYMLINK_NOFOLLOW, libc::AT_EMPTY_PATH, libc::AT_EACCESS]));
const STATX_AT: Kind = Kind::Bits(&bits([
    libc::AT_SYMLINK_NOFOLLOW,
    libc::AT_EMPTY_PATH,
    libc::AT_STATX_FORCE_SYNC,
    libc::AT_STATX_DONT_SYNC,
]));
const RENAME: Kind = Kind::One(&[0, 1, 2, 3]);
const SPLICE: Kind = Kind::Bits(&[1, 2, 4, 8]);
const RWF: Kind = Kind::Bits(&[1, 2, 4, 8, 0x10, 0x20, 0x80]);
const FALLOCATE: Kind = Kind::One(&[0, 1, 2, 3, 8, 0x10, 0x11, 0x20, 0x40, 0x41, 0x80]);
const WHENCE: Kind = Kind::One(&[0, 1, 2, 3, 4, 5]);
const SETXATTR: Kind = Kind::One(&[0, 1, 2, 3]);
const FLOCK: Kind = Kind::One(&[5, 6, 8, 4]);
const PROTECTION: Kind = Kind::Bits(&[1, 2, 4]);
const MAPPING: Kind = Kind::Only(&[0x11, 0x12, 0x13, 0x10, 0x32, 0x31]);
/// Commands of `fcntl` that take a number; those that would wait, or would have a pipe wait, are not among them.
const CONTROL: Kind = Kind::Only(&[0, 1, 2, 3, 1030, 1031, 1032, 1033, 1034, 9, 11, 1027, 99, 1026, 1025]);
const LOCK_CONTROL: Kind = Kind::Only(&[5, 6, 36, 37]);
const STATUS_FLAGS: Kind = Kind::Only(&[0x800, 0xc00, 0x40800, 0xc01]);
const NUMBERS: Kind =
    Kind::Only(&[0, 1, 2, 3, 31, 40, 100, 1023, 1024, 5000, u64::MAX, 0x8000_0000, 1 << 32]);
/// FIONREAD, FIONBIO with a word, FIOCLEX, FIONCLEX, FIOASYNC, FS_IOC_GETFLAGS, FS_IOC_GETVERSION, FIGETBSZ, TCGETS, FS_IOC_FSGETXATTR,
/// FICLONE, FICLONERANGE, BLKGETSIZE64, and one that is none.
const REQUEST: Kind = Kind::Only(&[
    0x541b,
    0x5451,
    0x5450,
    0x8008_6601,
    0x8008_7601,
    2,
    0x5401,
    0x801c_581f,
    0x4004_9409,
    0x4020_940d,
    0x8008_1272,
    0x1234_5678,
]);
const LONG_LENGTHS: Kind = Kind::Only(&[0, 1, 24, 64, 512, PAGE, 32768, u64::MAX, 1 << 31]);

use Kind::{
    AttributeArguments, Descriptor, DescriptorSet, Directory, Event, How, In, Length, Lock, Mode, Name, Node,
    Offset, OffsetPointer, One, Only, Out, Owner, Path, Polled, Times, Vector, VectorLength, Window,
    WindowLength,
};

/// All of them.
pub static TABLE: &[Entry] = &[
    call("read", libc::SYS_read, 20, &[Descriptor, Out, Length]).wrapped(),
    call("write", libc::SYS_write, 20, &[Descriptor, In, Length]).wrapped(),
    call("pread64", libc::SYS_pread64, 10, &[Descriptor, Out, Length, Offset]).wrapped(),
    call("pwrite64", libc::SYS_pwrite64, 10, &[Descriptor, In, Length, Offset]).wrapped(),
    call("readv", libc::SYS_readv, 6, &[Descriptor, Vector, VectorLength]).wrapped(),
    call("writev", libc::SYS_writev, 6, &[Descriptor, Vector, VectorLength]).wrapped(),
    call("preadv", libc::SYS_preadv, 4, &[Descriptor, Vector, VectorLength, Offset, One(&[0])]),
    call("pwritev", libc::SYS_pwritev, 4, &[Descriptor, Vector, VectorLength, Offset, One(&[0])]),
    call("preadv2", libc::SYS_preadv2, 6, &[Descriptor, Vector, VectorLength, Offset, One(&[0]), RWF]),
    call("pwritev2", libc::SYS_pwritev2, 6, &[Descriptor, Vector, VectorLength, Offset, One(&[0]), RWF]),
    call("lseek", libc::SYS_lseek, 12, &[Descriptor, Offset, WHENCE]).wrapped().answers(Answers::Position),
    call("open", libc::SYS_open, 20, &[Path, OPEN, Mode]).wrapped(),
    call("openat", libc::SYS_openat, 20, &[Directory, Path, OPEN, Mode]).wrapped(),
    call(
        "openat2",
        libc::SYS_openat2,
        12,
        &[Directory, Path, How, Only(&[24, 24, 24, 24, 24, 0, 8, 32, 4096, 5000])],
    ),
    call("creat", libc::SYS_creat, 4, &[Path, Mode]).wrapped(),
    call("close", libc::SYS_close, 8, &[Descriptor]).wrapped(),
    call("close_range", libc::SYS_close_range, 2, &[NUMBERS, NUMBERS, Kind::Bits(&[2, 4])]),
    call("dup", libc::SYS_dup, 5, &[Descriptor]).wrapped(),
    call("dup2", libc::SYS_dup2, 5, &[Descriptor, Descriptor]).wrapped(),
    call("dup3", libc::SYS_dup3, 4, &[Descriptor, Descriptor, Kind::Bits(&[0x80000])]).wrapped(),
    call("fcntl", libc::SYS_fcntl, 10, &[Descriptor, CONTROL, NUMBERS]).wrapped(),
    call("fcntl", libc::SYS_fcntl, 4, &[Descriptor, Only(&[4]), STATUS_FLAGS]).wrapped(),
    call("fcntl", libc::SYS_fcntl, 5, &[Descriptor, LOCK_CONTROL, Lock]).wrapped(),
    call("fcntl", libc::SYS_fcntl, 2, &[Descriptor, Only(&[1035, 1036, 1037, 1038]), OffsetPointer]),
    call("fcntl", libc::SYS_fcntl, 2, &[Descriptor, Only(&[1024]), One(&[0, 1, 2])]),
    call("flock", libc::SYS_flock, 4, &[Descriptor, FLOCK]).wrapped(),
    call("fsync", libc::SYS_fsync, 1, &[Descriptor]).wrapped(),
    call("fdatasync", libc::SYS_fdatasync, 1, &[Descriptor]).wrapped(),
    call(
        "sync_file_range",
        libc::SYS_sync_file_range,
        2,
        &[Descriptor, Offset, Offset, Kind::Bits(&[1, 2, 4])],
    ),
    call("syncfs", libc::SYS_syncfs, 1, &[Only(&[-1i64 as u64, 14, 999, 8])]).wrapped(),
    call("ftruncate", libc::SYS_ftruncate, 8, &[Descriptor, Offset]).wrapped(),
    call("truncate", libc::SYS_truncate, 6, &[Path, Offset]).wrapped(),
    call("fallocate", libc::SYS_fallocate, 8, &[Descriptor, FALLOCATE, Offset, Offset]).wrapped(),
    call("fadvise64", libc::SYS_fadvise64, 3, &[Descriptor, Offset, Offset, One(&[0, 1, 2, 3, 4, 5])]),
    call("readahead", libc::SYS_readahead, 2, &[Descriptor, Offset, Length]).wrapped(),
    call(
        "copy_file_range",
        libc::SYS_copy_file_range,
        10,
        &[Descriptor, OffsetPointer, Descriptor, OffsetPointer, Length, One(&[0])],
    )
    .wrapped(),
    call("sendfile", libc::SYS_sendfile, 8, &[Descriptor, Descriptor, OffsetPointer, Length]).wrapped(),
    call(
        "splice",
        libc::SYS_splice,
        10,
        &[Descriptor, OffsetPointer, Descriptor, OffsetPointer, Length, SPLICE],
    )
    .wrapped(),
    call("tee", libc::SYS_tee, 3, &[Descriptor, Descriptor, Length, SPLICE]).wrapped(),
    call("vmsplice", libc::SYS_vmsplice, 4, &[Descriptor, Vector, VectorLength, SPLICE]).wrapped(),
    call("getdents64", libc::SYS_getdents64, 8, &[Descriptor, Out, LONG_LENGTHS])
        .leaves(Leaves::Entries(1))
        .answers(Answers::Any),
    call("getdents", libc::SYS_getdents, 3, &[Descriptor, Out, LONG_LENGTHS])
        .leaves(Leaves::Own)
        .answers(Answers::Any),
    call("mkdir", libc::SYS_mkdir, 8, &[Path, Mode]).wrapped(),
    call("mkdirat", libc::SYS_mkdirat, 8, &[Directory, Path, Mode]).wrapped(),
    call("mknod", libc::SYS_mknod, 3, &[Path, Node, Only(&[0x103, 0, 0x105])]),
    call("mknodat", libc::SYS_mknodat, 4, &[Directory, Path, Node, Only(&[0x103, 0, 0x105])]),
    call("rmdir", libc::SYS_rmdir, 5, &[Path]).wrapped(),
    call("unlink", libc::SYS_unlink, 6, &[Path]).wrapped(),
    call("unlinkat", libc::SYS_unlinkat, 6, &[Directory, Path, Kind::Bits(&[0x200])]).wrapped(),
    call("rename", libc::SYS_rename, 8, &[Path, Path]).wrapped(),
    call("renameat", libc::SYS_renameat, 8, &[Directory, Path, Directory, Path]).wrapped(),
    call("renameat2", libc::SYS_renameat2, 10, &[Directory, Path, Directory, Path, RENAME]),
    call("link", libc::SYS_link, 6, &[Path, Path]).wrapped(),
    call("linkat", libc::SYS_linkat, 8, &[Directory, Path, Directory, Path, LINK_AT]).wrapped(),
    call("symlink", libc::SYS_symlink, 5, &[Path, Path]).wrapped(),
    call("symlinkat", libc::SYS_symlinkat, 5, &[Path, Directory, Path]).wrapped(),
    call("readlink", libc::SYS_readlink, 5, &[Path, Out, Length]).wrapped(),
    call("readlinkat", libc::SYS_readlinkat, 5, &[Directory, Path, Out, Length]).wrapped(),
    call("stat", libc::SYS_stat, 6, &[Path, Out]).wrapped().leaves(Leaves::Stat(1)),
    call("lstat", libc::SYS_lstat, 6, &[Path, Out]).wrapped().leaves(Leaves::Stat(1)),
    call("fstat", libc::SYS_fstat, 6, &[Descriptor, Out]).wrapped().leaves(Leaves::Stat(1)),
    call("newfstatat", libc::SYS_newfstatat, 8, &[Directory, Path, Out, AT]).leaves(Leaves::Stat(2)),
    call("statx", libc::SYS_statx, 8, &[Directory, Path, STATX_AT, One(&[0, 0x7ff, 0xfff, 1, 0x800]), Out])
        .wrapped()
        .leaves(Leaves::Statx(4)),
    call("statfs", libc::SYS_statfs, 3, &[Path, Out]).wrapped().leaves(Leaves::Own),
    call("fstatfs", libc::SYS_fstatfs, 3, &[Descriptor, Out]).wrapped().leaves(Leaves::Own),
    call("access", libc::SYS_access, 4, &[Path, ACCESS]).wrapped(),
    call("faccessat", libc::SYS_faccessat, 4, &[Directory, Path, ACCESS]),
    call("faccessat2", libc::SYS_faccessat2, 6, &[Directory, Path, ACCESS, ACCESS_AT]),
    call("chmod", libc::SYS_chmod, 5, &[Path, Mode]).wrapped(),
    call("fchmod", libc::SYS_fchmod, 5, &[Descriptor, Mode]).wrapped(),
    call("fchmodat", libc::SYS_fchmodat, 4, &[Directory, Path, Mode]),
    call("fchmodat2", libc::SYS_fchmodat2, 5, &[Directory, Path, Mode, AT]),
    call("chown", libc::SYS_chown, 4, &[Path, Owner, Owner]).wrapped(),
    call("lchown", libc::SYS_lchown, 4, &[Path, Owner, Owner]).wrapped(),
    call("fchown", libc::SYS_fchown, 4, &[Descriptor, Owner, Owner]).wrapped(),
    call("fchownat", libc::SYS_fchownat, 4, &[Directory, Path, Owner, Owner, AT]).wrapped(),
    call("utimensat", libc::SYS_utimensat, 6, &[Directory, Path, Times, AT]),
    call("utime", libc::SYS_utime, 2, &[Path, Times]),
    call("utimes", libc::SYS_utimes, 2, &[Path, Times]),
    call("futimesat", libc::SYS_futimesat, 2, &[Directory, Path, Times]),
    call("getxattr", libc::SYS_getxattr, 3, &[Path, Name, Out, Length]).wrapped(),
    call("lgetxattr", libc::SYS_lgetxattr, 3, &[Path, Name, Out, Length]).wrapped(),
    call("fgetxattr", libc::SYS_fgetxattr, 3, &[Descriptor, Name, Out, Length]).wrapped(),
    call("setxattr", libc::SYS_setxattr, 4, &[Path, Name, In, Length, SETXATTR]).wrapped(),
    call("lsetxattr", libc::SYS_lsetxattr, 3, &[Path, Name, In, Length, SETXATTR]).wrapped(),
    call("fsetxattr", libc::SYS_fsetxattr, 4, &[Descriptor, Name, In, Length, SETXATTR]).wrapped(),
    call("listxattr", libc::SYS_listxattr, 3, &[Path, Out, Length]).wrapped().leaves(Leaves::Names(1)),
    call("llistxattr", libc::SYS_llistxattr, 3, &[Path, Out, Length]).wrapped().leaves(Leaves::Names(1)),
    call("flistxattr", libc::SYS_flistxattr, 3, &[Descriptor, Out, Length])
        .wrapped()
        .leaves(Leaves::Names(1)),
    call("removexattr", libc::SYS_removexattr, 3, &[Path, Name]).wrapped(),
    call("lremovexattr", libc::SYS_lremovexattr, 2, &[Path, Name]).wrapped(),
    call("fremovexattr", libc::SYS_fremovexattr, 3, &[Descriptor, Name]).wrapped(),
    call(
        "setxattrat",
        463,
        3,
        &[Directory, Path, AT, Name, AttributeArguments, Only(&[16, 16, 16, 0, 8, 24])],
    ),
    call(
        "getxattrat",
        464,
        3,
        &[Directory, Path, AT, Name, AttributeArguments, Only(&[16, 16, 16, 0, 8, 24])],
    ),
    call("listxattrat", 465, 3, &[Directory, Path, AT, Out, Length]).leaves(Leaves::Names(3)),
    call("removexattrat", 466, 3, &[Directory, Path, AT, Name]),
    call("chdir", libc::SYS_chdir, 3, &[Path]).wrapped(),
    call("fchdir", libc::SYS_fchdir, 3, &[Descriptor]).wrapped(),
    call("getcwd", libc::SYS_getcwd, 3, &[Out, Length]),
    call("umask", libc::SYS_umask, 1, &[Only(&[0, 0o22, 0o77, 0o777, 0o27])]).wrapped(),
    call("pipe2", libc::SYS_pipe2, 2, &[Out, Only(&[0x800, 0x80800])]),
    call("eventfd2", libc::SYS_eventfd2, 1, &[Only(&[0, 1]), Only(&[0x800])]),
    call("memfd_create", libc::SYS_memfd_create, 1, &[Path, Only(&[0, 1, 2])]),
    call("epoll_create1", libc::SYS_epoll_create1, 1, &[Only(&[0, 0x80000])]),
    call("epoll_ctl", libc::SYS_epoll_ctl, 4, &[Descriptor, One(&[1, 2, 3]), Descriptor, Event]).wrapped(),
    call("epoll_wait", libc::SYS_epoll_wait, 2, &[Descriptor, Out, Only(&[0, 1, 10, u64::MAX]), Only(&[0])]),
    call("poll", libc::SYS_poll, 4, &[Polled, Only(&[0, 1, 2, 4, 5000]), Only(&[0])]).wrapped(),
    call(
        "ppoll",
        libc::SYS_ppoll,
        3,
        &[Polled, Only(&[0, 1, 2, 4]), Only(&[super::place::READ_ONLY]), Only(&[0]), Only(&[8])],
    ),
    call(
        "select",
        libc::SYS_select,
        3,
        &[
            Only(&[0, 8, 32, 64, 1024, u64::MAX]),
            DescriptorSet,
            DescriptorSet,
            DescriptorSet,
            Only(&[super::place::READ_ONLY]),
        ],
    ),
    call("mmap", libc::SYS_mmap, 8, &[Window, WindowLength, PROTECTION, MAPPING, Descriptor, Offset])
        .answers(Answers::Address),
    call("munmap", libc::SYS_munmap, 3, &[Window, WindowLength]),
    call("msync", libc::SYS_msync, 3, &[Window, WindowLength, One(&[1, 2, 4, 5, 6])]),
    call("mprotect", libc::SYS_mprotect, 3, &[Window, WindowLength, PROTECTION]),
    call("madvise", libc::SYS_madvise, 2, &[Window, WindowLength, Only(&[0, 1, 2, 3, 4, 9])]),
    call("mincore", libc::SYS_mincore, 1, &[Window, WindowLength, Out]).leaves(Leaves::Own),
    call("ioctl", libc::SYS_ioctl, 6, &[Descriptor, REQUEST, Out]).wrapped(),
    call("name_to_handle_at", libc::SYS_name_to_handle_at, 2, &[Directory, Path, Out, Out, LINK_AT])
        .leaves(Leaves::Own),
    call("open_by_handle_at", libc::SYS_open_by_handle_at, 1, &[Directory, Out, OPEN]),
    call("inotify_init1", libc::SYS_inotify_init1, 1, &[Only(&[0x800])]),
    call(
        "inotify_add_watch",
        libc::SYS_inotify_add_watch,
        2,
        &[Descriptor, Path, One(&[0x2, 0xfff, 0x0100_0002])],
    )
    .wrapped(),
    call("inotify_rm_watch", libc::SYS_inotify_rm_watch, 1, &[Descriptor, Only(&[0, 1, 2, u64::MAX])])
        .wrapped(),
    call("execve", libc::SYS_execve, 3, &[Path, Only(&[0]), Only(&[0])]),
    call("execveat", libc::SYS_execveat, 3, &[Directory, Path, Only(&[0]), Only(&[0]), AT]),
    call(
        "open_tree",
        libc::SYS_open_tree,
        2,
        &[Directory, Path, Kind::Bits(&[0x80000, 0x100, 0x1000, 0x800, 0x8000])],
    ),
    call("cachestat", 451, 1, &[Descriptor, Out, Out, One(&[0])]).leaves(Leaves::Own),
    call("getsockname", libc::SYS_getsockname, 1, &[Descriptor, Out, OffsetPointer]).leaves(Leaves::Own),
    call("getsockopt", libc::SYS_getsockopt, 1, &[Descriptor, Only(&[1]), Only(&[3, 4]), Out, OffsetPointer]),
    call("shutdown", libc::SYS_shutdown, 1, &[Descriptor, One(&[0, 1, 2])]).wrapped(),
    call("sendto", libc::SYS_sendto, 2, &[Descriptor, In, Length, Only(&[0x4040]), Only(&[0]), Only(&[0])])
        .wrapped(),
    call(
        "recvfrom",
        libc::SYS_recvfrom,
        2,
        &[Descriptor, Out, Length, Only(&[0x40]), Only(&[0]), Only(&[0])],
    )
    .wrapped(),
];
