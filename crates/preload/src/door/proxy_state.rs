//! Whether the proxy does this program's calls.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Whether the proxy does the calls.
pub(crate) static IS_ACTIVE: AtomicU32 = AtomicU32::new(0);

/// Held by the thread whose call it does.
pub(crate) static HOLDER: AtomicBool = AtomicBool::new(false);

/// The child of a fork has no such thread.
pub fn after_fork() {
    IS_ACTIVE.store(0, Ordering::Relaxed);
    HOLDER.store(false, Ordering::Relaxed);
}
