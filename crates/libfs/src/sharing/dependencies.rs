//! Parts of other logs that this session's log depends on. This is a leaf;
//! [`crate::sharing::log_dependencies`] fills it.

use crate::sync::{AtomicU64, Mutex};
use cuesta_format::{LogDependency, SessionId};
use std::collections::BTreeMap;

/// The dependencies of a session.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    /// The version of [`crate::Observed`] that the log has declared.
    pub(super) observed_logged: AtomicU64,
    /// The version of [`crate::Observed`] that is on the disk.
    pub(super) observed_durable: AtomicU64,
    /// In SharedFS's own session: the parts of programs' logs that its log depends on, as long as the disk
    /// may lack them. A map without random numbers: asking the kernel for these is where a cancelled thread ends.
    pub(super) senders: Mutex<BTreeMap<SessionId, LogDependency>>,
}
