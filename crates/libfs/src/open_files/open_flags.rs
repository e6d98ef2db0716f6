//! The flags of `open`, for every door: which exist, and which of them an open file keeps.

use libc::{
    O_ACCMODE, O_APPEND, O_ASYNC, O_CLOEXEC, O_CREAT, O_DIRECT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOCTTY,
    O_NOFOLLOW, O_NONBLOCK, O_PATH, O_SYNC, O_TMPFILE, O_TRUNC,
};

/// The flag that Linux adds to a file opened by a 64-bit program.
pub const LARGE_FILE: i32 = 0o100_000;

/// The bit of `O_TMPFILE` that is not `O_DIRECTORY`.
pub const UNNAMED: i32 = O_TMPFILE & !O_DIRECTORY;

/// Every flag that exists.
pub const OPEN_FLAGS: i32 = O_ACCMODE
    | O_CREAT
    | O_EXCL
    | O_NOCTTY
    | O_TRUNC
    | O_APPEND
    | O_NONBLOCK
    | O_SYNC
    | O_ASYNC
    | O_DIRECT
    | LARGE_FILE
    | O_DIRECTORY
    | O_NOFOLLOW
    | O_NOATIME
    | O_CLOEXEC
    | O_PATH
    | O_TMPFILE;

/// Flags that say how to open or make a file. They mean nothing for an open file.
pub const OPENING_FLAGS: i32 = O_CREAT | O_EXCL | O_TRUNC | UNNAMED;

/// Flags that `fcntl(F_SETFL)` may change.
pub(crate) const STATUS_FLAGS: i32 = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME;
