//! Why there is no mount, or why it stays.

use rustix::io::Errno;
use std::io;

/// The helper that mounts for users who are not root.
pub(super) const HELPER: &str = "fusermount3";

/// Why there is no mount, or it does not go.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The place cannot be a mount point.
    #[error("{0}")]
    Place(io::Error),
    /// It is no directory.
    #[error("it is not a directory")]
    NotDirectory,
    /// It has something in it.
    #[error("the directory is not empty (--nonempty mounts over what it holds)")]
    NotEmpty,
    /// Something is mounted there.
    #[error("something is mounted there already")]
    Taken,
    /// Something is, and its process does not answer.
    #[error(
        "a store is mounted there already, and its process does not answer (cuesta unmount --lazy takes it away)"
    )]
    Silent,
    /// Nothing is.
    #[error("no store is mounted there")]
    NotMounted,
    /// It cannot be made read only.
    #[error("it is in use: a program has a file open for writing there (fuser -m names it)")]
    Written,
    /// The options of a mount are the administrator's.
    #[error("only root may change the options of a mount")]
    OnlyRoot,
    /// A program uses the mount.
    #[error("it is in use: a program has a file or its working directory there (fuser -m names it)")]
    InUse,
    /// The kernel cannot do it.
    #[error("FUSE is not to be had here: {0} (is the kernel module loaded, and /dev/fuse there?)")]
    NoFuse(Errno),
    /// It would not.
    #[error("the kernel refuses: {0}")]
    Refused(Errno),
    /// Only root can without the helper.
    #[error("only root may mount without {HELPER}, which is not installed (Debian: fuse3)")]
    NoHelper,
    /// The helper would not.
    #[error("{HELPER}: {0}")]
    Helper(String),
}
