//! The credentials that a thread was found to have, and how often any thread changed its own.

use cuesta_libfs::Credentials;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts the calls that changed a thread's credentials.
pub(crate) static CHANGES: AtomicU32 = AtomicU32::new(0);

/// The credentials that a thread was found to have.
#[derive(Clone, Debug)]
pub struct ThreadCredentials {
    pub(crate) changes: u32,
    /// What decides.
    pub(crate) effective: Arc<Credentials>,
    /// What `access` asks for: the real ids instead.
    pub(crate) real: Arc<Credentials>,
}

/// What decides has changed otherwise than by such a call.
pub fn changed() {
    CHANGES.fetch_add(1, Ordering::AcqRel);
}
