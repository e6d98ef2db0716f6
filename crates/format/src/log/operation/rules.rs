//! The rules that a decoded body must meet, and the errors of a body that does not.

use crate::NAME_BYTES_MAX;
use crate::access_list::LIST_BYTES_MAX;
use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

/// Why a body whose checksum is right cannot be read: its writer is broken or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// The body is shorter or longer than its kind's.
    #[error("the body's length does not fit its kind")]
    Length,
    /// A name is empty, too long, `.`, `..`, or holds a slash or a zero byte.
    #[error("a name is not one a directory can hold")]
    Name,
    /// The name of an extended attribute is empty, too long, or holds a zero byte.
    #[error("a name is not one an extended attribute can have")]
    ExtendedName,
}

/// Whether a directory may hold this name.
#[must_use]
pub fn is_entry_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name != b"."
        && name != b".."
        && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}

/// Whether an extended attribute may have this name.
#[must_use]
pub fn is_extended_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(&0)
}

pub(super) fn extended_name(name: &[u8]) -> Result<&[u8], OperationError> {
    if is_extended_name(name) { Ok(name) } else { Err(OperationError::ExtendedName) }
}

pub(super) fn access_list(list: &[u8]) -> Result<&[u8], OperationError> {
    if list.len() <= LIST_BYTES_MAX { Ok(list) } else { Err(OperationError::Length) }
}

pub(super) fn decode_length(body: &[u8]) -> Result<u64, OperationError> {
    Ok(U64::ref_from_bytes(body).map_err(|_| OperationError::Length)?.get())
}
