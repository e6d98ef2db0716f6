//! The session that a vfork child attached for itself.

use crate::store::Client;

/// The session that a vfork child attached for itself. Its connection is among its own descriptors, so that its
/// parent, which has the same memory, can neither use nor close it.
#[derive(Clone, Copy)]
pub struct ChildSession {
    pub(crate) client: &'static Client,
    pub(crate) marker: i32,
}

impl std::fmt::Debug for ChildSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ChildSession").field("marker", &self.marker).finish_non_exhaustive()
    }
}
