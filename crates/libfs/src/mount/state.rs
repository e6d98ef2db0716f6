//! What a session keeps for a mount. This is a leaf; [`crate::mount::kernel`] uses it.

use crate::mount::revoked_directories::RevokedDirectories;
use crate::sync::{Mutex, RwLock};
use rustix::fd::OwnedFd;

/// What a session has that is a mount's.
#[derive(Debug, Default)]
pub(crate) struct KernelState {
    /// A descriptor of the mount.
    pub(super) mount: Mutex<Option<OwnedFd>>,
    pub(super) taken: RwLock<RevokedDirectories>,
}

/// A moment of a session: as long as it has lost no lease since, nor given one back, what it found out still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub(super) generation: u64,
    pub(super) given_back: u64,
}
