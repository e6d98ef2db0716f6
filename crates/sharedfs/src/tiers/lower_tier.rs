//! A lower tier, as people name it.

use cuesta_format::{Geometry, TierNumber};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A lower tier, as the store's configuration has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LowerTier {
    /// Its number: 1 is the tier below the fast one.
    pub number: u8,
    /// Its folder.
    pub path: PathBuf,
    /// Bytes of content it may hold.
    pub bytes: u64,
}

impl LowerTier {
    /// Its number, as addresses have it.
    pub(super) fn number(&self) -> TierNumber {
        TierNumber(self.number)
    }

    /// Its sizes.
    pub(super) fn geometry(&self, geometry: &Geometry) -> Geometry {
        Geometry { nvm_bytes: self.bytes, ..geometry.of_tier(self.number()) }
    }
}
