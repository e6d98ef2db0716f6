//! The mode of what a call makes.

use cuesta_libfs::NewMode;

const MODE_BITS: u32 = 0o7777;

/// The mode, and the process's umask.
#[inline]
pub(crate) fn new_mode(mode: usize) -> NewMode {
    NewMode { bits: mode as u32 & MODE_BITS, umask: crate::users::umask::current() }
}
