//! The error number by which a request is refused.

use crate::kernel::request::Malformed;
use cuesta_libfs::Error;
use rustix::io::Errno;

/// Why a request is refused: an error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) i32);

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let errno = error.errno();
        if errno == libc::EIO {
            // The sender of the request is told no more than that.
            tracing::warn!(%error, "a call by the mount fails");
        }
        Refusal(errno)
    }
}

impl From<Malformed> for Refusal {
    fn from(_: Malformed) -> Refusal {
        Refusal(libc::EIO)
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal(errno.raw_os_error())
    }
}

/// An inode the kernel knows that is no more: it looks at the path once more, where there is one.
pub(super) fn stale(error: Error) -> Refusal {
    if error == Error::NotFound { Refusal(libc::ESTALE) } else { error.into() }
}
