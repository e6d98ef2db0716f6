//! Parts of other logs that this session's log depends on. This is a leaf; [`crate::sharing::log_dependencies`] fills it.

use crate::sync::{AtomicU64, Mutex};
use cuesta_format::{LogDependency, SessionId};
use std::collections::HashMap;

/// What a session keeps of its dependencies.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    /// The version of [`Observed`] that the log depends on.
    pub(super) observed_logged: AtomicU64,
    /// The version that the disk has.
    pub(super) observed_durable: AtomicU64,
    /// In SharedFS's own session: the parts of programs' logs that its log depends on, and the disk may lack.
    pub(super) senders: Mutex<HashMap<SessionId, LogDependency>>,
}
