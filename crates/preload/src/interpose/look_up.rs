//! Looking libc's own functions up as the program starts.

use crate::interpose::{descriptors, paths};

/// Looks libc's own functions up. Later that would wait for a thread that loads a library, which may wait for the caller; and it
/// would forget what `dlerror` was to tell.
pub fn look_up() {
    for real in [descriptors::real::ALL, paths::real::ALL].into_iter().flatten() {
        let _ = real.look_up();
    }
}
