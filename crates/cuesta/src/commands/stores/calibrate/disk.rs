//! `cuesta calibrate --tier`: measures the disk of a lower tier, and how much of a profile is obtained on it.

use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::messages::output;
use crate::messages::size::human;
use cuesta_format::disk_profile::{DiskProfile, DiskProfileError};
use cuesta_media::emulate::calibrate_disk::{DiskFigures, DiskRow, ScratchFile};
use cuesta_sharedfs::Options;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// Bytes of the scratch file that is measured, where half of the free space holds them.
const SCRATCH_BYTES: u64 = 256 << 20;
/// The smallest scratch file. A fast disk would finish a smaller one before the clock shows anything.
const SCRATCH_BYTES_LEAST: u64 = 16 << 20;

/// A figure that is slower than asked by a larger part is not the one that was asked for.
pub(super) const PART_OFF_MAX: f64 = 0.2;

/// The outcome of a calibration.
struct Calibration<'a> {
    tier: &'a str,
    folder: &'a Path,
    profile: DiskProfile,
    disk: DiskFigures,
    obtained: DiskFigures,
}

/// Measures the tier that is called `tier`. Plays `asked`, or what the configuration says.
pub(super) fn calibrate(
    options: &Options,
    tier: &str,
    asked: Option<&str>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let Some(lower) = options.tier.get(tier) else {
        let names: Vec<&str> = options.tier.keys().map(String::as_str).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let why = format!("--tier {tier}: no lower tier is called so (there are: {names})");
        return Err(Failure::new(why).exiting(WRONG_USAGE));
    };
    let profile = asked.map(str::parse).transpose().map_err(|error: DiskProfileError| {
        Failure::new(format!("--emulate: {error}")).exiting(WRONG_USAGE)
    })?;
    let profile = profile.unwrap_or(lower.profile);
    let folder = lower.path.as_path();
    if !folder.is_dir() {
        let why = if folder.exists() {
            "is a disk without a file system, which has no room for a scratch file"
        } else {
            "is not there"
        };
        return Err(Failure::on(folder, why));
    }
    let fail = |error: &dyn std::fmt::Display| Failure::on(folder, format!("cannot be measured: {error}"));
    let room = rustix::fs::statvfs(folder).map_err(|errno| Failure::on(folder, errno))?;
    let bytes = (room.f_bavail.saturating_mul(room.f_frsize) / 2).min(SCRATCH_BYTES);
    if bytes < SCRATCH_BYTES_LEAST {
        let needed = human(SCRATCH_BYTES_LEAST * 2);
        return Err(Failure::on(folder, format!("has no {needed} free, which measuring its disk needs")));
    }
    let scratch = ScratchFile::new(folder, bytes).map_err(|error| fail(&error))?;
    if !scratch.leaves_memory().map_err(|error| fail(&error))? {
        let why = "is in memory: no read of it reaches a disk, so no profile is obtained there";
        return Err(Failure::on(folder, why));
    }
    let disk = scratch.measure(DiskProfile::default()).map_err(|error| fail(&error))?;
    let obtained = scratch.measure(profile).map_err(|error| fail(&error))?;
    let calibration = Calibration { tier, folder, profile, disk, obtained };
    let bytes = scratch.bytes();
    output::print(&if json { calibration.as_json().to_string() + "\n" } else { calibration.as_text(bytes) })?;
    match calibration.missing() {
        Some(why) => Err(Failure::new(why)),
        None => Ok(ExitCode::SUCCESS),
    }
}

impl Calibration<'_> {
    fn asked(&self, row: DiskRow) -> Option<u64> {
        Some(row.of(&DiskFigures::of(self.profile))).filter(|&asked| asked != 0)
    }

    /// How many times longer than asked, or how much of the bandwidth; `None`: nothing was asked.
    fn ratio(&self, row: DiskRow) -> Option<f64> {
        self.asked(row).map(|asked| row.of(&self.obtained) as f64 / asked as f64)
    }

    /// Whether the disk itself is slower than was asked.
    fn is_faster_than_disk(&self, row: DiskRow) -> bool {
        let does = row.of(&self.disk);
        self.asked(row).is_some_and(|asked| if row.is_latency() { asked < does } else { asked > does })
    }

    /// The figures that are slower than was asked.
    fn missing(&self) -> Option<String> {
        let is_missing = |row: &DiskRow| {
            self.ratio(*row).is_some_and(|ratio| {
                if row.is_latency() { ratio > 1.0 + PART_OFF_MAX } else { ratio < 1.0 - PART_OFF_MAX }
            })
        };
        let told = |row: DiskRow| {
            let [asked, obtained, does] =
                [self.asked(row).unwrap_or_default(), row.of(&self.obtained), row.of(&self.disk)]
                    .map(|value| row.written(value));
            let disk = if self.is_faster_than_disk(row) {
                format!("; the disk itself does {does}")
            } else {
                String::new()
            };
            format!("{}: asked {asked}, obtained {obtained}{disk}", row.title())
        };
        let told: Vec<String> = DiskRow::ALL.into_iter().filter(is_missing).map(told).collect();
        (!told.is_empty()).then(|| {
            format!("a disk cannot be played faster than it is, and others may use it: {}", told.join("; "))
        })
    }

    fn as_text(&self, bytes: u64) -> String {
        let rows = DiskRow::ALL.map(|row| {
            let (asked, ratio) = match (self.asked(row), self.ratio(row)) {
                (Some(asked), Some(ratio)) => (row.written(asked), format!("{ratio:.2}")),
                _ => ("-".into(), "-".into()),
            };
            let [disk, obtained] = [&self.disk, &self.obtained].map(|figures| row.written(row.of(figures)));
            vec![row.title().to_owned(), disk, asked, obtained, ratio]
        });
        let profile = if self.profile.is_none() { "none".to_owned() } else { self.profile.to_string() };
        format!(
            "{}  tier {}, profile {profile}; {} measured\n{}",
            output::heading(&self.folder.display().to_string()),
            self.tier,
            human(bytes),
            output::table(&["", "disk", "asked", "obtained", "ratio"], &rows),
        )
    }

    fn as_json(&self) -> Value {
        let rows = DiskRow::ALL.map(|row| {
            json!({
                "figure": row.key(),
                "asked": self.asked(row),
                "medium": row.of(&self.disk),
                "obtained": row.of(&self.obtained),
                "ratio": self.ratio(row),
                "faster_than_medium": self.is_faster_than_disk(row),
            })
        });
        json!({
            "folder": self.folder.display().to_string(),
            "tier": self.tier,
            "medium": "block",
            "profile": (!self.profile.is_none()).then(|| self.profile.to_string()),
            "figures": rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(obtained: DiskFigures) -> Calibration<'static> {
        let disk =
            DiskFigures { read_ns: 90_000, flushed_write_ns: 400_000, read_mb_s: 1500, write_mb_s: 2000 };
        let profile = "read_ns=100000,write_ns=85000,read_mb_s=500".parse().unwrap();
        Calibration { tier: "disk", folder: Path::new("/mnt"), profile, disk, obtained }
    }

    #[test]
    fn what_is_missing_is_told_with_what_the_disk_does() {
        let near = DiskFigures { read_ns: 110_000, flushed_write_ns: 90_000, read_mb_s: 450, write_mb_s: 10 };
        assert_eq!(calibration(near).missing(), None);
        let far = DiskFigures { read_ns: 150_000, flushed_write_ns: 410_000, read_mb_s: 450, write_mb_s: 10 };
        let told = calibration(far).missing().unwrap();
        for part in [
            "random read of 4 KiB: asked 100.0 µs, obtained 150.0 µs;",
            "flush: asked 85.0 µs, obtained 410.0 µs; the disk itself does 400.0 µs",
        ] {
            assert!(told.contains(part), "{part:?} is missing: {told}");
        }
        assert!(!told.contains("sequential"), "{told}");
        let json = calibration(far).as_json();
        assert_eq!(
            (&json["figures"][1]["faster_than_medium"], &json["tier"]),
            (&true.into(), &"disk".into())
        );
        assert_eq!(json["figures"][3]["asked"], Value::Null);
    }
}
