//! Every error, and the one table that turns it into an error number.

use cuesta_format::InodeNumber;
use cuesta_format::wire::{Refusal, Response};
use cuesta_media::MediaError;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs)]
pub enum Error {
    #[error("no such file or directory")]
    NotFound,
    #[error("file exists")]
    Exists,
    #[error("not a directory")]
    NotDirectory,
    #[error("is a directory")]
    IsDirectory,
    #[error("directory not empty")]
    NotEmpty,
    /// The mode bits forbid it.
    #[error("permission denied")]
    Denied,
    /// Only the owner or root may.
    #[error("operation not permitted")]
    NotPermitted,
    #[error("invalid argument")]
    Invalid,
    #[error("file name too long")]
    NameTooLong,
    #[error("too many levels of symbolic links")]
    SymlinkLoop,
    /// The inode has as many names as it may have.
    #[error("too many links")]
    LinkLimit,
    #[error("no space left on the store")]
    NoSpace,
    /// The owner has as much as the quota allows.
    #[error("disk quota exceeded")]
    OverQuota,
    #[error("file too large")]
    FileTooBig,
    /// A file would grow beyond the limit that the process set itself (`RLIMIT_FSIZE`). A signal goes with
    /// it.
    #[error("file size limit exceeded")]
    OverLimit,
    /// The file was not opened for this.
    #[error("bad file descriptor")]
    AccessMode,
    /// The medium does not take the log.
    #[error("the medium does not take the log")]
    LogLost,
    /// The application's memory cannot be read or written.
    #[error("bad address")]
    Fault,
    #[error("operation not supported")]
    Unsupported,
    /// The driver of this special file is not ours to call.
    #[error("no such device or address")]
    NoDevice,
    /// No data (or hole) behind the offset.
    #[error("no data behind the offset")]
    NoData,
    /// The inode has no such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// The name of an extended attribute is empty or too long.
    #[error("out of range")]
    Range,
    /// The value of an extended attribute is too long.
    #[error("value too long")]
    ValueTooLong,
    #[error("resource busy")]
    Busy,
    /// A program cannot be written while it runs.
    #[error("text file busy")]
    Running,
    /// The offset does not fit. No call answers it. It keeps the numbers of the errors behind it in messages
    /// stable.
    #[error("value too large")]
    Overflow,
    /// The process has no descriptors left to take in a part of the log.
    #[error("too many open files")]
    Descriptors,
    /// Names of different stores.
    #[error("cross-device link")]
    CrossDevice,
    /// Client and daemon are of different versions.
    #[error("cuesta versions differ: {0}")]
    Version(String),
    /// SharedFS is gone.
    #[error("the daemon is gone")]
    Disconnected,
    /// SharedFS gave the session up, or does not know it.
    #[error("the daemon ended the session")]
    SessionEnded,
    /// SharedFS failed, or its answer makes no sense.
    #[error("the daemon failed: {0}")]
    Daemon(String),
    /// The content of a file in the store is not the content that was written.
    #[error("the content of inode {0} is damaged")]
    Content(InodeNumber),
    /// The path leads to a named pipe that may be opened. The kernel opens the file that stands in for it
    /// ([`crate::Client::stand_in`]).
    #[error("a named pipe")]
    Pipe(InodeNumber),
    /// The path leads out of the store. The caller continues with this path, which starts with `/` (a
    /// symbolic link's target) or with `..` from the store's root.
    #[error("the path leaves the store")]
    Leaves {
        /// The path that remains.
        path: Vec<u8>,
        /// Of a call with two paths, the second one leads out.
        second: bool,
    },
    /// SharedFS performs the operations on the inode, so the caller sends this one to it
    /// ([`crate::Shipper`]).
    #[error("operations on inode {0} are sent to the daemon")]
    Shipped(InodeNumber),
    /// The process that asked for the call ended before the call took effect.
    #[error("the process that asked has ended")]
    Withdrawn,
}

impl Error {
    /// The error number an application sees. [`Error::Leaves`], [`Error::Pipe`], [`Error::Shipped`] and
    /// [`Error::Withdrawn`] never reach one.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Error::NotFound => libc::ENOENT,
            Error::Exists => libc::EEXIST,
            Error::NotDirectory => libc::ENOTDIR,
            Error::IsDirectory => libc::EISDIR,
            Error::NotEmpty => libc::ENOTEMPTY,
            Error::Denied => libc::EACCES,
            Error::NotPermitted => libc::EPERM,
            Error::Invalid => libc::EINVAL,
            Error::NameTooLong => libc::ENAMETOOLONG,
            Error::SymlinkLoop => libc::ELOOP,
            Error::LinkLimit => libc::EMLINK,
            Error::NoSpace => libc::ENOSPC,
            Error::OverQuota => libc::EDQUOT,
            Error::FileTooBig | Error::OverLimit => libc::EFBIG,
            Error::AccessMode => libc::EBADF,
            Error::Fault => libc::EFAULT,
            Error::Unsupported => libc::EOPNOTSUPP,
            Error::NoDevice | Error::NoData | Error::Pipe(_) => libc::ENXIO,
            Error::NoAttribute => libc::ENODATA,
            Error::Range => libc::ERANGE,
            Error::ValueTooLong => libc::E2BIG,
            Error::Busy => libc::EBUSY,
            Error::Running => libc::ETXTBSY,
            Error::Overflow => libc::EOVERFLOW,
            Error::Descriptors => libc::EMFILE,
            Error::CrossDevice | Error::Leaves { .. } => libc::EXDEV,
            Error::Version(_) => libc::EPROTO,
            Error::Disconnected
            | Error::SessionEnded
            | Error::Daemon(_)
            | Error::Content(_)
            | Error::LogLost
            | Error::Shipped(_)
            | Error::Withdrawn => libc::EIO,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Error::NotFound,
            Refusal::NoSpace => Error::NoSpace,
            Refusal::OverQuota => Error::OverQuota,
            Refusal::SessionEnded => Error::SessionEnded,
            Refusal::Version { .. } => Error::Version(refusal.to_string()),
            Refusal::Invalid(why) | Refusal::Internal(why) => Error::Daemon(why),
        }
    }
}

impl From<MediaError> for Error {
    fn from(error: MediaError) -> Self {
        Error::Daemon(error.to_string())
    }
}

/// The error for an answer that does not fit its question.
pub(crate) fn unexpected(_response: &Response) -> Error {
    Error::Daemon("the answer does not fit the request".into())
}
