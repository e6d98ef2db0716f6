//! The state that a session keeps for a mount. This is a leaf; [`crate::mount::kernel`] uses it.

use crate::mount::revoked_directories::RevokedDirectories;
use crate::sync::{Mutex, RwLock};
use rustix::fd::OwnedFd;

/// The mount of a session.
#[derive(Debug, Default)]
pub(crate) struct KernelState {
    /// A descriptor of the mount.
    pub(super) mount: Mutex<Option<OwnedFd>>,
    pub(super) taken: RwLock<RevokedDirectories>,
}

/// A moment of a session. An answer from this moment still holds if the session has lost no lease since, nor
/// given one back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub(super) generation: u64,
    pub(super) given_back: u64,
}
