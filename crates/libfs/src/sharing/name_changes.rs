//! The count of changes that remove names. This is a leaf; [`crate::sharing::instant`] compares it.

use crate::sync::{AtomicU64, Mutex};

/// The count, in a session that executes calls of other processes.
#[derive(Debug, Default)]
pub(crate) struct NameChanges {
    pub(super) count: AtomicU64,
    /// Held while an operation appends an entry that follows a path, or that removes names.
    pub(super) appending: Mutex<()>,
}
