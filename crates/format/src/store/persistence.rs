//! How far a platform saves the caches of its processors when the power goes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How far a store must have come to persistent memory to outlive the loss of power. The kernel calls it so, too
/// (`persistence_domain` of a region of persistent memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersistenceDomain {
    /// To the memory controller: lines are written back (ADR).
    MemoryController,
    /// Into a cache, which the platform writes back when the power goes (eADR).
    CpuCache,
}

impl PersistenceDomain {
    /// All there are.
    pub const ALL: [PersistenceDomain; 2] =
        [PersistenceDomain::MemoryController, PersistenceDomain::CpuCache];

    /// The kernel's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PersistenceDomain::MemoryController => "memory_controller",
            PersistenceDomain::CpuCache => "cpu_cache",
        }
    }
}

impl fmt::Display for PersistenceDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
