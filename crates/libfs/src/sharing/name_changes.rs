//! The count of changes that take names away. This is a leaf; [`crate::sharing::instant`] compares it.

use crate::sync::{AtomicU64, Mutex};

/// What a session that executes calls of others counts.
#[derive(Debug, Default)]
pub(crate) struct NameChanges {
    pub(super) count: AtomicU64,
    /// Held while an entry is appended that follows upon a path, or takes names away.
    pub(super) appending: Mutex<()>,
}
