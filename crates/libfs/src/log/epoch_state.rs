//! The epochs of a store, as far as a session knows them. This is a leaf; [`crate::log::epochs`] goes by it.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use cuesta_format::wire::Welcome;
use cuesta_format::{Durability, Medium};

/// The epochs of the store, as far as the session knows them.
#[derive(Debug)]
pub(crate) struct SessionEpochs {
    /// The newest epoch that the log says, or 0.
    pub(super) logged: AtomicU64,
    /// The newest epoch in which an entry completed.
    pub(super) completed: AtomicU64,
    /// When the oldest entry was logged that the disk may lack, unless it has been written since.
    pub(super) unwritten_since_ms: AtomicU64,
    /// The bound of optimistic mode in milliseconds, or 0: calls that ask for durability wait.
    pub(super) optimistic_ms_max: AtomicU32,
}

impl SessionEpochs {
    pub(crate) fn of(welcome: &Welcome) -> SessionEpochs {
        let [logged, completed, unwritten_since_ms] = [const { AtomicU64::new(0) }; 3];
        let optimistic_ms_max = AtomicU32::new(bound_of(welcome));
        SessionEpochs { logged, completed, unwritten_since_ms, optimistic_ms_max }
    }

    /// The next daemon has said how durable calls are.
    pub(crate) fn continue_with(&self, welcome: &Welcome) {
        self.optimistic_ms_max.store(bound_of(welcome), Ordering::Relaxed);
    }
}

/// 0: the session waits for the disk.
fn bound_of(welcome: &Welcome) -> u32 {
    match (welcome.medium, welcome.durability) {
        (Medium::Block, Durability::Optimistic) => welcome.optimistic_ms_max.max(1),
        _ => 0,
    }
}
