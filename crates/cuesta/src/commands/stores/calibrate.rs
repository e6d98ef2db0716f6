//! `cuesta calibrate`: measures a medium, and how much of a profile is obtained on it. `disk` does so for lower tiers.

use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::messages::output;
use crate::messages::size::human;
use crate::stores::store::Store;
use cuesta_format::emulation::{Figure, Profile, ProfileError};
use cuesta_format::geometry::DEVICE_LINK;
use cuesta_media::Medium;
use cuesta_media::emulate::calibrate::Scratch;
use cuesta_sharedfs::trust::Purpose;
use cuesta_sharedfs::{Options, read_superblock};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod disk;

use disk::PART_OFF_MAX;

/// Where memory is measured when no store says where.
const MEMORY_FOLDER: &str = "/dev/shm";
/// As much of the medium is measured, if half of what is free holds it: more than caches keep.
const SCRATCH_BYTES: u64 = 256 << 20;
/// With less, caches would be measured.
const SCRATCH_BYTES_LEAST: u64 = 16 << 20;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Measure what a medium does, and what a program gets of an emulation profile on it.\n\n\
                  With STORE: its medium, and the profile of its cuesta.toml. Without: memory, in /dev/shm. A medium can be \
                  slowed down to a profile's figures, and not sped up: what of the profile is faster is told. With --tier: the \
                  disk of a lower tier, as programs meet it when the page cache holds nothing. Takes a second, or some on a disk, \
                  and up to 256 MiB of the medium meanwhile; other work on the machine is measured along.",
    after_help = "\
Examples:
  cuesta calibrate                                 what memory does here
  cuesta calibrate --emulate optane-pmm            how exactly it plays a profile
  cuesta calibrate --emulate read_ns=300,write_ns=500,read_mb_s=5000,write_mb_s=2000
  cuesta calibrate ~/store --json                  as its cuesta.toml says
  cuesta calibrate ~/store --tier disk             a lower tier, as its cuesta.toml says
  cuesta calibrate ~/store --tier disk --emulate hdd,seek_ns=4000000

Profiles:
  dram             as the medium is: no delay
  optane-pmm       one module of Optane persistent memory: 175 and 94 ns, 5.3 and 1.8 GB/s
  optane-pmm-x6    six of them, side by side: 175 and 94 ns, 32 and 11.2 GB/s
                   (Assise, OSDI 2020, table 1; a module has a sixth of the bandwidth)
  read_ns, write_ns in ns, read_mb_s, write_mb_s in millions of bytes a second; behind a name they change it

Profiles of lower tiers:
  optane-ssd       10 and 10 µs, 2.4 and 2.0 GB/s (Assise, table 1)
  nvme             120 and 30 µs, 2.0 GB/s and 500 MB/s (Ziggurat, FAST 2019, table 1)
  sata-ssd         80 and 85 µs, 500 and 500 MB/s (the same table)
  hdd              a seek of 10 ms, 100 and 100 MB/s (the same table)
                   the same figures, and seek_ns, flush_ns: a seek, and what a flush takes beyond its writes

Exit status: 0 obtained what was asked, 1 failed, or the medium is slower than asked, or more than 20 % is missing, 2 wrong usage."
)]
pub struct Arguments {
    /// The store whose medium is measured
    store: Option<PathBuf>,
    /// The lower tier that is measured, by its name
    #[arg(long, value_name = "NAME", requires = "store")]
    tier: Option<String>,
    /// The profile to play [default: the store's or the tier's, or none]
    #[arg(long, value_name = "PROFILE")]
    emulate: Option<String>,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// The outcome of a calibration.
struct Calibration {
    asked: Profile,
    medium: Profile,
    obtained: Profile,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if let (Some(store), Some(tier)) = (&arguments.store, &arguments.tier) {
        let options = options_of(&Store::find(store)?)?;
        return disk::calibrate(&options, tier, arguments.emulate.as_deref(), arguments.json);
    }
    let asked: Option<Profile> =
        arguments.emulate.as_deref().map(str::parse).transpose().map_err(|error: ProfileError| {
            Failure::new(format!("--emulate: {error}")).exiting(WRONG_USAGE)
        })?;
    let (folder, medium, asked) = match &arguments.store {
        Some(store) => {
            let store = Store::find(store)?;
            // The measurement uses the folder that was checked, by its descriptor.
            let trusted = store.open_trusted(Purpose::Look)?;
            let tier = trusted.tier().path();
            let options = options_of(&store)?;
            let superblock = read_superblock(tier).map_err(|error| Failure::on(store.folder(), error))?;
            if tier.join(DEVICE_LINK).is_symlink() {
                let why = "is on a device of bytes, where no other medium is played (a file system mounted with DAX does)";
                return Err(Failure::on(store.folder(), why));
            }
            (store.tier(), superblock.medium, asked.unwrap_or(options.emulate))
        }
        None => (PathBuf::from(MEMORY_FOLDER), Medium::Memory, asked.unwrap_or_default()),
    };
    refuse_disk(&folder, medium)?;
    let scratch = scratch(&folder, medium)?;
    let fail = |error: &dyn std::fmt::Display| Failure::on(&folder, format!("cannot be measured: {error}"));
    let measured = scratch.measure().map_err(|error| fail(&error))?;
    let obtained = scratch.obtained(asked).map_err(|error| fail(&error))?;
    let calibration = Calibration { asked, medium: measured, obtained };
    output::print(&if arguments.json {
        calibration.as_json(&folder, medium).to_string() + "\n"
    } else {
        calibration.as_text(&folder, medium, &scratch)
    })?;
    match calibration.asked.refusal(measured).or_else(|| calibration.missing()) {
        Some(why) => Err(Failure::new(why)),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn options_of(store: &Store) -> Result<Options, Failure> {
    Options::load(&store.configuration()).map_err(|error| Failure::new(error.to_string()))
}

/// Refuses a profile that `folder`, or the medium it would be played on, cannot be slowed down to.
pub fn refuse_faster(folder: &Path, medium: Medium, asked: Profile) -> Result<(), Failure> {
    if asked.is_none() {
        return Ok(());
    }
    refuse_disk(folder, medium)?;
    let fail = |error: &dyn std::fmt::Display| Failure::on(folder, format!("cannot be measured: {error}"));
    let measured = scratch(folder, medium)?.measure().map_err(|error| fail(&error))?;
    match asked.refusal(measured) {
        Some(why) => Err(Failure::new(format!("{why}; cuesta calibrate measures it"))),
        None => Ok(()),
    }
}

fn refuse_disk(folder: &Path, medium: Medium) -> Result<(), Failure> {
    if medium == Medium::Block {
        let why = "is on a disk; profiles are played on --medium memory or pmem alone";
        return Err(Failure::on(folder, why));
    }
    Ok(())
}

fn scratch(folder: &Path, medium: Medium) -> Result<Scratch, Failure> {
    let room = rustix::fs::statvfs(folder).map_err(|errno| Failure::on(folder, errno))?;
    let bytes = (room.f_bavail.saturating_mul(room.f_frsize) / 2).min(SCRATCH_BYTES) >> 20 << 20;
    if bytes < SCRATCH_BYTES_LEAST {
        let needed = human(SCRATCH_BYTES_LEAST * 2);
        return Err(Failure::on(folder, format!("has no {needed} free, which measuring its medium needs")));
    }
    Scratch::new(folder, medium, bytes)
        .map_err(|error| Failure::on(folder, format!("cannot be measured: {error}")))
}

impl Calibration {
    /// How many times longer than asked, or how much of the bandwidth; `None`: nothing was asked.
    fn ratio(&self, figure: Figure) -> Option<f64> {
        let asked = figure.of(&self.asked);
        (asked != 0).then(|| figure.of(&self.obtained) as f64 / asked as f64)
    }

    /// The figures that are slower than was asked, although the medium is not.
    fn missing(&self) -> Option<String> {
        let told: Vec<String> = Figure::ALL
            .into_iter()
            .filter(|figure| {
                self.ratio(*figure).is_some_and(|ratio| {
                    if figure.is_latency() { ratio > 1.0 + PART_OFF_MAX } else { ratio < 1.0 - PART_OFF_MAX }
                })
            })
            .map(|figure| {
                let [asked, obtained] =
                    [&self.asked, &self.obtained].map(|profile| figure.written(figure.of(profile)));
                format!("{}: asked {asked}, obtained {obtained}", figure.title())
            })
            .collect();
        (!told.is_empty()).then(|| {
            format!(
                "less was obtained than asked, though the medium is faster: {} (is the machine busy?)",
                told.join("; ")
            )
        })
    }

    fn as_text(&self, folder: &Path, medium: Medium, scratch: &Scratch) -> String {
        let Calibration { asked, medium: measured, obtained } = self;
        let rows = Figure::ALL.map(|figure| {
            let value = |profile| figure.written(figure.of(profile));
            let (asked, ratio) = match self.ratio(figure) {
                Some(ratio) => (value(asked), format!("{ratio:.2}")),
                None => ("-".into(), "-".into()),
            };
            vec![figure.title().to_owned(), value(measured), asked, value(obtained), ratio]
        });
        format!(
            "{}  profile {asked}, medium {medium}; {} measured by {} threads\n{}",
            output::heading(&folder.display().to_string()),
            human(scratch.bytes()),
            scratch.threads(),
            output::table(&["", "medium", "asked", "obtained", "ratio"], &rows),
        )
    }

    fn as_json(&self, folder: &Path, medium: Medium) -> Value {
        let Calibration { asked, medium: measured, obtained } = self;
        let rows = Figure::ALL.map(|figure| {
            let asked = Some(figure.of(asked)).filter(|&asked| asked != 0);
            json!({
                "figure": figure.key(),
                "asked": asked,
                "medium": figure.of(measured),
                "obtained": figure.of(obtained),
                "ratio": self.ratio(figure),
                "faster_than_medium": self.asked.beyond(*measured).any(|(beyond, _)| beyond == figure),
            })
        });
        json!({
            "folder": folder.display().to_string(),
            "medium": medium,
            "profile": asked.to_string(),
            "figures": rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(obtained: Profile) -> Calibration {
        let asked = Profile { read_ns: 175, write_ns: 0, read_mb_s: 5000, write_mb_s: 1000 };
        let medium = Profile { read_ns: 90, write_ns: 20, read_mb_s: 12_000, write_mb_s: 9000 };
        Calibration { asked, medium, obtained }
    }

    #[test]
    fn what_is_missing_is_told_and_what_was_not_asked_is_not() {
        let near = Profile { read_ns: 200, write_ns: 4000, read_mb_s: 4100, write_mb_s: 990 };
        assert_eq!(calibration(near).missing(), None);
        let far = Profile { read_ns: 220, write_ns: 4000, read_mb_s: 3900, write_mb_s: 990 };
        let told = calibration(far).missing().unwrap();
        for part in [
            "read latency: asked 175 ns, obtained 220 ns",
            "read bandwidth: asked 5.0 GB/s, obtained 3.9 GB/s",
        ] {
            assert!(told.contains(part), "{part:?} is missing: {told}");
        }
        assert!(!told.contains("write"), "{told}");
    }

    #[test]
    fn programs_get_each_figure() {
        let obtained = Profile { read_ns: 350, write_ns: 20, read_mb_s: 5000, write_mb_s: 990 };
        let json = calibration(obtained).as_json(Path::new("/proc"), Medium::Memory);
        let figures = json["figures"].as_array().unwrap();
        assert_eq!(figures[0]["ratio"], 2.0);
        assert_eq!((&figures[1]["asked"], &figures[1]["ratio"]), (&Value::Null, &Value::Null));
        assert_eq!(figures[3]["medium"], 9000);
        assert_eq!(json["profile"], "read_ns=175,read_mb_s=5000,write_mb_s=1000");
    }
}
