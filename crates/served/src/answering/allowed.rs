//! The part of a request that a caller may ask for.

use cuesta_libfs::{Error, NewMode, SetAttributes};

pub(super) const PERMISSIONS: u32 = 0o7777;

/// A mode without bits that are not the caller's to choose.
pub(super) fn allowed(mode: NewMode, bits: u32) -> NewMode {
    NewMode { bits: mode.bits & bits, umask: mode.umask & 0o777 }
}

/// Attributes without bits of the mode that are not the caller's to choose.
pub(crate) fn permitted(set: SetAttributes) -> SetAttributes {
    SetAttributes { mode: set.mode.map(|mode| mode & PERMISSIONS), ..set }
}

/// A path, target or name that C can hold.
pub(super) fn checked(bytes: &[u8]) -> Result<&[u8], Error> {
    if bytes.contains(&0) { Err(Error::Invalid) } else { Ok(bytes) }
}

/// What stands in for a pipe in the kernel is out of another user's reach.
pub(super) fn without_pipes(error: Error) -> Error {
    if matches!(error, Error::Pipe(_)) { Error::Unsupported } else { error }
}
