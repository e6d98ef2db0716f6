//! A lower tier, as people name it.

use cuesta_format::disk_profile::DiskProfile;
use cuesta_format::{Geometry, TierNumber};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A lower tier, as the store's configuration has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LowerTier {
    /// Its number: 1 is the tier below the fast one.
    pub number: u8,
    /// Its folder.
    pub path: PathBuf,
    /// Bytes of content it may hold.
    pub bytes: u64,
    /// The disk that is played on its own.
    #[serde(default, deserialize_with = "profile")]
    pub profile: DiskProfile,
}

/// A profile as people write it.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a profile is a text like \"hdd\", or a table of figures like { read_ns = 80000 }"
)]
enum WrittenProfile {
    Text(String),
    Figures(BTreeMap<String, u64>),
}

fn profile<'de, D: Deserializer<'de>>(written: D) -> Result<DiskProfile, D::Error> {
    let read = match WrittenProfile::deserialize(written)? {
        WrittenProfile::Text(text) => text.parse(),
        WrittenProfile::Figures(figures) => {
            DiskProfile::of_figures(figures.iter().map(|(key, value)| (key.as_str(), *value)))
        }
    };
    read.map_err(serde::de::Error::custom)
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
