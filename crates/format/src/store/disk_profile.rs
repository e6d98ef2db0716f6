//! Profiles of disks: how fast a lower tier is, so that a slower disk can be played on a faster one.
//!
//! A disk has two figures more than memory has ([`super::emulation`]): the times of a seek and of a
//! flush. In a profile, 0 means: as the disk is.

use super::emulation::{Figure, ProfileError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How fast a disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskProfile {
    /// How long a read takes at least, in nanoseconds. Meanwhile the disk serves others.
    pub read_ns: u64,
    /// How long it takes until a write is on the disk, at least, in nanoseconds. Meanwhile the disk serves others.
    pub write_ns: u64,
    /// How long an access that does not begin where the last one ended keeps the disk from all others, in nanoseconds.
    pub seek_ns: u64,
    /// How much longer a flush takes than the writes before it, in nanoseconds.
    pub flush_ns: u64,
    /// The bandwidth of all readers together, in millions of bytes a second.
    pub read_mb_s: u64,
    /// The bandwidth of all writers together, in millions of bytes a second.
    pub write_mb_s: u64,
}

/// Accesses that a disk saw which is played, since the store's fast tier was made or the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Reads of pages that the page cache did not have.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
}

/// One of a profile's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFigure {
    /// One that memory has as well.
    Common(Figure),
    /// [`DiskProfile::seek_ns`].
    Seek,
    /// [`DiskProfile::flush_ns`].
    Flush,
}

/// Longer ones are a tape's.
const LATENCY_NS_MAX: u64 = 1_000_000_000;
/// With less, the longest write a call may make would take more than two seconds.
const BANDWIDTH_MB_S_MIN: u64 = 10;
/// More than any disk.
const BANDWIDTH_MB_S_MAX: u64 = 1_000_000;

/// Profiles by name.
///
/// | name | figures from |
/// |---|---|
/// | `optane-ssd` | Assise (OSDI 2020), table 1, "SSD (local)", an Optane DC P4800X: 10 µs, 2.4 and 2.0 GB/s. Ziggurat's table 1 has the same latency |
/// | `nvme` | Ziggurat (FAST 2019), table 1, "NVMe SSD", a DC P3600: 120 and 30 µs, 2 GB/s and 500 MB/s |
/// | `sata-ssd` | the same table, "SATA SSD": 80 and 85 µs, 500 MB/s |
/// | `hdd` | the same table, "Hard disk": 10 ms, 100 MB/s. The first slides of the Strata talk (SOSP 2017) have the same latency |
///
/// No table has a figure for flushes: a flush takes a write's latency, and nothing beyond. The latency of a hard disk is
/// that of its arm and its turning: reads that follow each other do not pay it.
pub const DISK_PRESETS: [(&str, DiskProfile); 4] = [
    ("nvme", flash(120_000, 30_000, 2000, 500)),
    ("sata-ssd", flash(80_000, 85_000, 500, 500)),
    (
        "hdd",
        DiskProfile {
            read_ns: 0,
            write_ns: 10_000_000,
            seek_ns: 10_000_000,
            flush_ns: 0,
            read_mb_s: 100,
            write_mb_s: 100,
        },
    ),
    ("optane-ssd", flash(10_000, 10_000, 2400, 2000)),
];

const fn flash(read_ns: u64, write_ns: u64, read_mb_s: u64, write_mb_s: u64) -> DiskProfile {
    DiskProfile { read_ns, write_ns, seek_ns: 0, flush_ns: 0, read_mb_s, write_mb_s }
}

impl DiskFigure {
    /// All there are.
    pub const ALL: [DiskFigure; 6] = [
        DiskFigure::Common(Figure::ReadLatency),
        DiskFigure::Common(Figure::WriteLatency),
        DiskFigure::Seek,
        DiskFigure::Flush,
        DiskFigure::Common(Figure::ReadBandwidth),
        DiskFigure::Common(Figure::WriteBandwidth),
    ];

    /// Its name where a profile is written.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            DiskFigure::Common(figure) => figure.key(),
            DiskFigure::Seek => "seek_ns",
            DiskFigure::Flush => "flush_ns",
        }
    }

    const fn is_latency(self) -> bool {
        match self {
            DiskFigure::Common(figure) => figure.is_latency(),
            DiskFigure::Seek | DiskFigure::Flush => true,
        }
    }

    /// Its value in a profile.
    #[must_use]
    pub const fn of(self, profile: &DiskProfile) -> u64 {
        match self {
            DiskFigure::Common(Figure::ReadLatency) => profile.read_ns,
            DiskFigure::Common(Figure::WriteLatency) => profile.write_ns,
            DiskFigure::Common(Figure::ReadBandwidth) => profile.read_mb_s,
            DiskFigure::Common(Figure::WriteBandwidth) => profile.write_mb_s,
            DiskFigure::Seek => profile.seek_ns,
            DiskFigure::Flush => profile.flush_ns,
        }
    }

    const fn place(self, profile: &mut DiskProfile) -> &mut u64 {
        match self {
            DiskFigure::Common(Figure::ReadLatency) => &mut profile.read_ns,
            DiskFigure::Common(Figure::WriteLatency) => &mut profile.write_ns,
            DiskFigure::Common(Figure::ReadBandwidth) => &mut profile.read_mb_s,
            DiskFigure::Common(Figure::WriteBandwidth) => &mut profile.write_mb_s,
            DiskFigure::Seek => &mut profile.seek_ns,
            DiskFigure::Flush => &mut profile.flush_ns,
        }
    }

    fn check(self, value: u64) -> Result<u64, DiskProfileError> {
        let (least, most) = match self.is_latency() {
            true => (1, LATENCY_NS_MAX),
            false => (BANDWIDTH_MB_S_MIN, BANDWIDTH_MB_S_MAX),
        };
        match value {
            0 => Ok(0),
            value if (least..=most).contains(&value) => Ok(value),
            _ => Err(ProfileError::Range { key: self.key(), least, most }.into()),
        }
    }
}

/// Why a text is no profile of a disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskProfileError {
    /// Neither a name nor a figure.
    #[error("{0:?} is no profile of a disk ({names}) and no figure like read_ns=80000 ({keys})",
        names = DISK_PRESETS.map(|(name, _)| name).join(", "), keys = DiskFigure::ALL.map(DiskFigure::key).join(", "))]
    Unknown(String),
    /// A figure is wrong.
    #[error(transparent)]
    Figure(#[from] ProfileError),
}

impl DiskProfile {
    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == DiskProfile::default()
    }

    /// The profile that names its figures one by one.
    pub fn of_figures<'k>(
        figures: impl IntoIterator<Item = (&'k str, u64)>,
    ) -> Result<DiskProfile, DiskProfileError> {
        let mut profile = DiskProfile::default();
        for (key, value) in figures {
            let figure = DiskFigure::ALL.into_iter().find(|figure| figure.key() == key);
            let figure = figure.ok_or_else(|| DiskProfileError::Unknown(key.to_owned()))?;
            *figure.place(&mut profile) = figure.check(value)?;
        }
        Ok(profile)
    }
}

impl FromStr for DiskProfile {
    type Err = DiskProfileError;

    /// A preset's name, figures (`read_ns=80000,write_mb_s=500`), or a name and figures that differ from it.
    fn from_str(text: &str) -> Result<DiskProfile, DiskProfileError> {
        let unknown = |part: &str| DiskProfileError::Unknown(part.to_owned());
        let mut profile = DiskProfile::default();
        let mut given = [false; DiskFigure::ALL.len()];
        for (index, part) in text.split(',').map(str::trim).enumerate() {
            let Some((key, value)) = part.split_once('=') else {
                let preset = DISK_PRESETS.into_iter().find(|(name, _)| index == 0 && *name == part);
                profile = preset.ok_or_else(|| unknown(part))?.1;
                continue;
            };
            let mut figures = DiskFigure::ALL.into_iter().zip(&mut given);
            let (figure, given) =
                figures.find(|(figure, _)| figure.key() == key.trim()).ok_or_else(|| unknown(part))?;
            let key = figure.key();
            if std::mem::replace(given, true) {
                return Err(ProfileError::Twice(key).into());
            }
            let value = value.trim();
            let number = value.parse().map_err(|_| ProfileError::Number { key, value: value.to_owned() })?;
            *figure.place(&mut profile) = figure.check(number)?;
        }
        Ok(profile)
    }
}

/// As it is read again: a preset's name, or the figures that are asked for.
impl fmt::Display for DiskProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = DISK_PRESETS.iter().find(|(_, preset)| preset == self) {
            return f.pad(name);
        }
        let asked = DiskFigure::ALL.into_iter().filter(|figure| figure.of(self) != 0);
        let parts: Vec<String> =
            asked.map(|figure| format!("{}={}", figure.key(), figure.of(self))).collect();
        f.pad(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_is_written() {
        let own = DiskProfile { seek_ns: 4_000_000, flush_ns: 1, write_mb_s: 10, ..DiskProfile::default() };
        for profile in DISK_PRESETS.map(|(_, preset)| preset).into_iter().chain([own]) {
            assert_eq!(profile.to_string().parse(), Ok(profile), "{profile}");
            let figures = DiskFigure::ALL.map(|figure| (figure.key(), figure.of(&profile)));
            assert_eq!(DiskProfile::of_figures(figures), Ok(profile));
        }
        assert_eq!(own.to_string(), "seek_ns=4000000,flush_ns=1,write_mb_s=10");
        let changed: DiskProfile = "hdd, read_mb_s = 200".parse().unwrap();
        assert_eq!((changed.seek_ns, changed.read_mb_s, changed.write_mb_s), (10_000_000, 200, 100));
    }

    #[test]
    fn mistakes_are_named_in_one_line() {
        for (text, words) in [
            ("tape", &["\"tape\"", "nvme, sata-ssd, hdd, optane-ssd", "seek_ns, flush_ns"][..]),
            ("", &["hdd"]),
            ("optane-pmm", &["\"optane-pmm\""]),
            ("read_us=3", &["read_us=3"]),
            ("read_ns=3,hdd", &["\"hdd\""]),
            ("seek_ns=far", &["seek_ns", "\"far\""]),
            ("write_ns=1000000001", &["write_ns", "from 1 to 1000000000"]),
            ("write_mb_s=9", &["write_mb_s", "from 10 to"]),
            ("flush_ns=1,flush_ns=2", &["flush_ns", "twice"]),
        ] {
            let error = text.parse::<DiskProfile>().unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let error = DiskProfile::of_figures([("read_ms", 3)]).unwrap_err().to_string();
        assert!(error.contains("\"read_ms\"") && error.contains("optane-ssd"), "{error}");
    }
}
