//! Profiles of media: how fast one is, so that a slower one can be played on it.
//!
//! A profile has four figures. In one that is asked for, 0 means: as the medium is. The measured figures of a medium are a
//! profile, too, so that the two can be compared.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How fast a medium is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// How long a small read takes, in nanoseconds.
    pub read_ns: u64,
    /// How long a fence waits until a small write is durable, in nanoseconds.
    pub write_ns: u64,
    /// What all readers together get, in millions of bytes a second.
    pub read_mb_s: u64,
    /// What all writers together get, in millions of bytes a second.
    pub write_mb_s: u64,
}

/// One of a profile's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// [`Profile::read_ns`].
    ReadLatency,
    /// [`Profile::write_ns`].
    WriteLatency,
    /// [`Profile::read_mb_s`].
    ReadBandwidth,
    /// [`Profile::write_mb_s`].
    WriteBandwidth,
}

/// Longer ones are a disk's, and a wait for them keeps a processor busy.
const LATENCY_NS_MAX: u64 = 1_000_000;
/// With less, the longest write a call may make would take more than a sixth of a second.
const BANDWIDTH_MB_S_MIN: u64 = 100;
/// More than any memory.
const BANDWIDTH_MB_S_MAX: u64 = 1_000_000;

/// Profiles by name. The figures are those of table 1 of the Assise paper (OSDI 2020), measured with six modules side by
/// side (its section 5): NVM (local), read and write latency 175 and 94 ns, sequential 32 and 11.2 GB/s.
pub const PRESETS: [(&str, Profile); 3] = [
    ("dram", Profile { read_ns: 0, write_ns: 0, read_mb_s: 0, write_mb_s: 0 }),
    ("optane-pmm", Profile { read_ns: 175, write_ns: 94, read_mb_s: 32_000 / 6, write_mb_s: 11_200 / 6 }),
    ("optane-pmm-x6", Profile { read_ns: 175, write_ns: 94, read_mb_s: 32_000, write_mb_s: 11_200 }),
];

impl Figure {
    /// All there are.
    pub const ALL: [Figure; 4] =
        [Figure::ReadLatency, Figure::WriteLatency, Figure::ReadBandwidth, Figure::WriteBandwidth];

    /// Its name where a profile is written.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Figure::ReadLatency => "read_ns",
            Figure::WriteLatency => "write_ns",
            Figure::ReadBandwidth => "read_mb_s",
            Figure::WriteBandwidth => "write_mb_s",
        }
    }

    /// What people call it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Figure::ReadLatency => "read latency",
            Figure::WriteLatency => "write latency",
            Figure::ReadBandwidth => "read bandwidth",
            Figure::WriteBandwidth => "write bandwidth",
        }
    }

    /// Whether less of it is faster.
    #[must_use]
    pub const fn is_latency(self) -> bool {
        matches!(self, Figure::ReadLatency | Figure::WriteLatency)
    }

    /// Its value in a profile.
    #[must_use]
    pub const fn of(self, profile: &Profile) -> u64 {
        match self {
            Figure::ReadLatency => profile.read_ns,
            Figure::WriteLatency => profile.write_ns,
            Figure::ReadBandwidth => profile.read_mb_s,
            Figure::WriteBandwidth => profile.write_mb_s,
        }
    }

    /// Gives it a value.
    pub const fn set(self, profile: &mut Profile, value: u64) {
        match self {
            Figure::ReadLatency => profile.read_ns = value,
            Figure::WriteLatency => profile.write_ns = value,
            Figure::ReadBandwidth => profile.read_mb_s = value,
            Figure::WriteBandwidth => profile.write_mb_s = value,
        }
    }

    /// A value as people write it.
    #[must_use]
    pub fn written(self, value: u64) -> String {
        match (self.is_latency(), value) {
            (true, _) => format!("{value} ns"),
            (false, 0..1000) => format!("{value} MB/s"),
            (false, _) => format!("{}.{} GB/s", value / 1000, value % 1000 / 100),
        }
    }

    fn check(self, value: u64) -> Result<u64, ProfileError> {
        let (key, most) = (self.key(), if self.is_latency() { LATENCY_NS_MAX } else { BANDWIDTH_MB_S_MAX });
        let least = if self.is_latency() { 1 } else { BANDWIDTH_MB_S_MIN };
        match value {
            0 => Ok(0),
            value if (least..=most).contains(&value) => Ok(value),
            _ => Err(ProfileError::Range { key, least, most }),
        }
    }
}

/// Why a text is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Neither a name nor a figure.
    #[error("{0:?} is no profile ({names}) and no figure like read_ns=300 ({keys})",
        names = PRESETS.map(|(name, _)| name).join(", "), keys = Figure::ALL.map(Figure::key).join(", "))]
    Unknown(String),
    /// A figure's value is no number.
    #[error("{key} must be a whole number, not {value:?}")]
    Number {
        /// Which.
        key: &'static str,
        /// The value that was given.
        value: String,
    },
    /// A figure's value is too small or too large.
    #[error("{key} must be from {least} to {most}, or 0 for what the medium does")]
    Range {
        /// Which.
        key: &'static str,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Something is said twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
}

impl Profile {
    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Profile::default()
    }

    /// What of it is faster than `medium` is, which can only be slowed down: each figure, and what the medium does.
    pub fn beyond(self, medium: Profile) -> impl Iterator<Item = (Figure, u64)> {
        Figure::ALL.into_iter().filter_map(move |figure| {
            let (asked, does) = (figure.of(&self), figure.of(&medium));
            let is_beyond = if figure.is_latency() { asked < does } else { asked > does };
            (asked != 0 && is_beyond).then_some((figure, does))
        })
    }

    /// The same in a line for people; `None`: nothing is.
    #[must_use]
    pub fn refusal(self, medium: Profile) -> Option<String> {
        let told: Vec<String> = self
            .beyond(medium)
            .map(|(figure, does)| {
                let asked = figure.written(figure.of(&self));
                let (verb, does) =
                    (if figure.is_latency() { "takes" } else { "gives" }, figure.written(does));
                format!(
                    "{}: asked {asked}, the medium {verb} {does} ({}=0 leaves it)",
                    figure.title(),
                    figure.key()
                )
            })
            .collect();
        (!told.is_empty())
            .then(|| format!("a medium cannot be played faster than it is: {}", told.join("; ")))
    }
}

impl FromStr for Profile {
    type Err = ProfileError;

    /// A preset's name, figures (`read_ns=300,write_mb_s=5000`), or a name and figures that differ from it.
    fn from_str(text: &str) -> Result<Profile, ProfileError> {
        let unknown = |part: &str| ProfileError::Unknown(part.to_owned());
        let mut profile = Profile::default();
        let mut given = [false; Figure::ALL.len()];
        for (index, part) in text.split(',').map(str::trim).enumerate() {
            let Some((key, value)) = part.split_once('=') else {
                let preset = PRESETS.into_iter().find(|(name, _)| index == 0 && *name == part);
                profile = preset.ok_or_else(|| unknown(part))?.1;
                continue;
            };
            let found =
                Figure::ALL.into_iter().zip(&mut given).find(|(figure, _)| figure.key() == key.trim());
            let (figure, given) = found.ok_or_else(|| unknown(part))?;
            let key = figure.key();
            if std::mem::replace(given, true) {
                return Err(ProfileError::Twice(key));
            }
            let value = value.trim();
            let number = value.parse().map_err(|_| ProfileError::Number { key, value: value.to_owned() })?;
            figure.set(&mut profile, figure.check(number)?);
        }
        Ok(profile)
    }
}

/// As it is read again: a preset's name, or the figures that are asked for.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = PRESETS.iter().find(|(_, preset)| preset == self) {
            return f.pad(name);
        }
        let asked = Figure::ALL.into_iter().filter(|figure| figure.of(self) != 0);
        let parts: Vec<String> =
            asked.map(|figure| format!("{}={}", figure.key(), figure.of(self))).collect();
        f.pad(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let own = Profile { read_ns: 300, write_ns: 0, read_mb_s: 10_000, write_mb_s: 100 };
        for profile in PRESETS.map(|(_, preset)| preset).into_iter().chain([own]) {
            assert_eq!(profile.to_string().parse(), Ok(profile), "{profile}");
        }
        assert_eq!(own.to_string(), "read_ns=300,read_mb_s=10000,write_mb_s=100");
        let changed: Profile = "optane-pmm, read_ns = 300, write_mb_s=0".parse().unwrap();
        assert_eq!(changed, Profile { read_ns: 300, write_ns: 94, read_mb_s: 5333, write_mb_s: 0 });
        assert!("dram".parse::<Profile>().unwrap().is_none() && !changed.is_none());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("optane", &["\"optane\"", "dram, optane-pmm", "read_ns, write_ns"][..]),
            ("", &["dram"]),
            ("read_us=3", &["read_us=3", "write_mb_s"]),
            ("read_ns=3,dram", &["\"dram\""]),
            ("read_ns=fast", &["read_ns", "\"fast\""]),
            ("read_ns=-1", &["read_ns", "\"-1\""]),
            ("write_ns=1000001", &["write_ns", "from 1 to 1000000"]),
            ("read_mb_s=99", &["read_mb_s", "from 100 to"]),
            ("read_ns=1,read_ns=2", &["read_ns", "twice"]),
        ] {
            let error = text.parse::<Profile>().unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_faster_than_the_medium_is_told_with_what_that_does() {
        let medium = Profile { read_ns: 95, write_ns: 20, read_mb_s: 12_340, write_mb_s: 6000 };
        let told = |text: &str| text.parse::<Profile>().unwrap().refusal(medium);
        assert_eq!(told("dram"), None);
        assert_eq!(told("optane-pmm"), None);
        assert_eq!(told("read_ns=95,write_ns=20,read_mb_s=12340,write_mb_s=6000"), None);
        let line = told("read_ns=10,write_ns=19,read_mb_s=12341,write_mb_s=6001").unwrap();
        for part in [
            "read latency: asked 10 ns, the medium takes 95 ns (read_ns=0",
            "write latency: asked 19 ns, the medium takes 20 ns",
            "read bandwidth: asked 12.3 GB/s, the medium gives 12.3 GB/s",
            "write bandwidth: asked 6.0 GB/s, the medium gives 6.0 GB/s",
        ] {
            assert!(line.contains(part), "{part:?} is missing: {line}");
        }
        assert!(!told("optane-pmm-x6").unwrap().contains("latency"));
    }
}
