//! Errors of mapped files.

use crate::copying::user_copy::Fault;
use rustix::io::Errno;

/// A file could not be opened, grown or mapped.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The kernel refused.
    #[error("cannot {action}: {errno}")]
    System {
        /// The action that failed.
        action: &'static str,
        /// Its answer.
        errno: Errno,
    },
    /// The file is not as long as it must be.
    #[error("file holds {found} bytes where {expected} are needed")]
    Short {
        /// Bytes needed.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The place asked for is outside the reserved window, or not on a page boundary.
    #[error("bytes {at}..+{len} do not fit a window of {window}")]
    Placement {
        /// Offset in the window.
        at: u64,
        /// Length asked for.
        len: u64,
        /// Length of the window.
        window: u64,
    },
    /// Stores cannot be made durable on this medium here.
    #[error("medium {0} is not supported on this machine")]
    Unsupported(crate::Medium),
}

impl MediaError {
    /// Attaches what was tried to the kernel's answer.
    pub fn system(action: &'static str) -> impl Fn(Errno) -> MediaError {
        move |errno| MediaError::System { action, errno }
    }

    /// Whether it means that the medium, or what may be used of it, is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self.errno(), Errno::NOSPC | Errno::DQUOT | Errno::FBIG)
    }

    /// The error number a caller of the system should see.
    pub fn errno(&self) -> Errno {
        match self {
            MediaError::System { errno, .. } => *errno,
            MediaError::Short { .. } => Errno::IO,
            MediaError::Placement { .. } => Errno::INVAL,
            MediaError::Unsupported(_) => Errno::OPNOTSUPP,
        }
    }
}

/// An access to mapped memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// It reaches past the mapped range.
    #[error("bytes {offset}..+{len} lie outside a mapping of {limit}")]
    OutOfBounds {
        /// Where it starts.
        offset: u64,
        /// How long it is.
        len: u64,
        /// Length of the mapping.
        limit: u64,
    },
    /// The application's memory (or a page of the file that is gone) faulted.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The stored bytes are not on the disk, and may never be.
    #[error("the disk does not take what is written: {0}")]
    Unwritten(Errno),
}
