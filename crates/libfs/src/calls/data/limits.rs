//! Sizes that a file may have.

use crate::errno::Error;
use cuesta_format::FILE_BYTES_MAX;

/// The error for a write or an extension behind `limit`.
#[cold]
pub(crate) fn too_big(limit: u64) -> Error {
    if limit < FILE_BYTES_MAX { Error::OverLimit } else { Error::FileTooBig }
}

/// Checks a size that an application gave.
pub(crate) fn checked_size(size: i64) -> Result<u64, Error> {
    u64::try_from(size).map_err(|_| Error::Invalid)
}
