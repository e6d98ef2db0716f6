//! When a call that asks for durability returns, on medium `block`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// When `fsync` and its like return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Once the disk has it.
    #[default]
    Pessimistic,
    /// At once. The disk has it a bounded time later.
    Optimistic,
}

/// How long the disk may take at most by default, in milliseconds.
pub const OPTIMISTIC_MS_MAX: u32 = 50;

/// The bounds that can be set.
pub const OPTIMISTIC_MS: RangeInclusive<u32> = 4..=60_000;

impl Durability {
    /// Both.
    pub const ALL: [Durability; 2] = [Durability::Pessimistic, Durability::Optimistic];

    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Durability::Pessimistic => "pessimistic",
            Durability::Optimistic => "optimistic",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Durability, String> {
        let found = Durability::ALL.into_iter().find(|durability| durability.name() == text);
        found.ok_or_else(|| format!("{text}: it is pessimistic or optimistic"))
    }
}

/// The wish of a session. `None`: as the store is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurabilityWish {
    /// When its calls return.
    pub durability: Option<Durability>,
    /// In which time the disk has what they did, in milliseconds.
    pub optimistic_ms_max: Option<u32>,
}

impl DurabilityWish {
    /// As the store is configured.
    pub const NONE: DurabilityWish = DurabilityWish { durability: None, optimistic_ms_max: None };

    /// The variable by which programs learn what `cuesta run` was told.
    pub const VARIABLE: &str = "CUESTA_DURABILITY";
}

/// As in the variable: `optimistic`, `optimistic:20`, `:20`.
impl fmt::Display for DurabilityWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.durability.map_or("", Durability::name);
        match self.optimistic_ms_max {
            None => f.write_str(name),
            Some(milliseconds) => write!(f, "{name}:{milliseconds}"),
        }
    }
}

impl FromStr for DurabilityWish {
    type Err = String;

    fn from_str(text: &str) -> Result<DurabilityWish, String> {
        let (name, milliseconds) =
            text.split_once(':').map_or((text, None), |(name, bound)| (name, Some(bound)));
        let durability = if name.is_empty() { None } else { Some(name.parse()?) };
        let number = |text: &str| text.parse().map_err(|_| format!("{text}: no number of milliseconds"));
        let optimistic_ms_max = milliseconds.map(number).transpose()?.map(check_milliseconds).transpose()?;
        Ok(DurabilityWish { durability, optimistic_ms_max })
    }
}

/// Checks a bound that was set.
pub fn check_milliseconds(milliseconds: u32) -> Result<u32, String> {
    let (least, most) = (OPTIMISTIC_MS.start(), OPTIMISTIC_MS.end());
    match OPTIMISTIC_MS.contains(&milliseconds) {
        true => Ok(milliseconds),
        false => Err(format!("optimistic_ms_max must be from {least} to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_by_the_name_it_shows() {
        for durability in Durability::ALL {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        let bounds = [None, Some(20)];
        let wishes =
            [None, Some(Durability::Optimistic), Some(Durability::Pessimistic)].into_iter().flat_map(
                |durability| bounds.map(|bound| DurabilityWish { durability, optimistic_ms_max: bound }),
            );
        for wish in wishes {
            assert_eq!(wish.to_string().parse(), Ok(wish), "{wish}");
        }
        assert!("optimistic:0".parse::<DurabilityWish>().is_err());
        assert!("eager".parse::<Durability>().unwrap_err().contains("optimistic"));
        assert_eq!(check_milliseconds(OPTIMISTIC_MS_MAX), Ok(50));
        assert!(check_milliseconds(0).is_err());
    }
}
