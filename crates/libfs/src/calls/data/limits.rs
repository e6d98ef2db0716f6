//! Sizes that a file may have.

use crate::errno::Error;
use cuesta_format::FILE_BYTES_MAX;

/// Why nothing goes behind `limit`.
#[cold]
pub(crate) fn too_big(limit: u64) -> Error {
    if limit < FILE_BYTES_MAX { Error::OverLimit } else { Error::FileTooBig }
}

/// A size as an application gives it.
pub(crate) fn checked_size(size: i64) -> Result<u64, Error> {
    u64::try_from(size).map_err(|_| Error::Invalid)
}
