//! The flag that a fork leaves in the child.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(crate) static FORKED: AtomicU32 = AtomicU32::new(0);

/// The flag the child of a fork sets in its copy.
pub fn forked_flag() -> *const u32 {
    FORKED.as_ptr().cast_const()
}

/// This is the child of a fork that was made here.
pub fn forked() {
    FORKED.store(1, Ordering::Relaxed);
}

/// Whether this process is none that was forked, and has made no call since.
#[inline(always)]
pub fn is_caught_up() -> bool {
    FORKED.load(Ordering::Relaxed) == 0
}

/// The child about to be made has a copy of this memory, and these descriptors.
pub(crate) static SHARES_DESCRIPTORS: AtomicBool = AtomicBool::new(false);

/// Notes whether it does.
pub fn note_sharing(shares: bool) {
    SHARES_DESCRIPTORS.store(shares, Ordering::Relaxed);
}
