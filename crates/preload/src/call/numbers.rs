//! Numbers of system calls that libc has no names for yet.

/// quotactl, by a descriptor.
pub const QUOTACTL_FD: i64 = 443;
/// How much of a file is cached.
pub const CACHESTAT: i64 = 451;
/// setxattr, below a directory.
pub const SETXATTRAT: i64 = 463;
/// getxattr, below a directory.
pub const GETXATTRAT: i64 = 464;
/// listxattr, below a directory.
pub const LISTXATTRAT: i64 = 465;
/// removexattr, below a directory.
pub const REMOVEXATTRAT: i64 = 466;
/// open_tree and mount_setattr in one.
pub const OPEN_TREE_ATTR: i64 = 467;
/// A file's flags, by its path.
pub const FILE_GETATTR: i64 = 468;
/// Setting them.
pub const FILE_SETATTR: i64 = 469;
