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
    /// It is being taken out of the store, and gets no content any more.
    #[serde(default)]
    pub removing: bool,
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
    pub(crate) fn number(&self) -> TierNumber {
        TierNumber(self.number)
    }

    /// Its sizes.
    pub(super) fn geometry(&self, geometry: &Geometry) -> Geometry {
        Geometry { nvm_bytes: self.bytes, ..geometry.of_tier(self.number()) }
    }
}

/// Tiers that a store may have below the fast one.
const TIERS_BELOW_MAX: usize = 8;

/// Lower tiers, and those that were taken out, are numbered from 1 on without gaps, so a section that was lost is told.
pub(crate) fn check_tiers(tiers: &BTreeMap<String, LowerTier>, removed: &[u8]) -> Result<(), String> {
    let mut numbers: Vec<u8> =
        tiers.values().map(|tier| tier.number).chain(removed.iter().copied()).collect();
    numbers.sort_unstable();
    if tiers.len() > TIERS_BELOW_MAX || !numbers.iter().copied().eq(1..=numbers.len() as u8) {
        return Err(format!(
            "the tiers of [tier.NAME] and of removed_tiers have the numbers {numbers:?}: they must be 1, 2 and so on, and there are \
             up to {TIERS_BELOW_MAX} tiers"
        ));
    }
    if numbers.len() > usize::from(TierNumber::MAX.0) {
        return Err(format!("the numbers of tiers are used up: there are {}", TierNumber::MAX));
    }
    match tiers.iter().find(|(_, tier)| !tier.path.is_absolute()) {
        Some((name, _)) => Err(format!("the path of [tier.{name}] must begin with /")),
        None => Ok(()),
    }
}
