//! The content of a store of the campaign, and how it reads.

use crate::operations::random::Random;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// Directories of the content.
const DIRECTORIES: u64 = 6;
/// Files of each stage.
const FILES: u64 = 40;
const FILE_BYTES_MAX: u64 = 100_000;
/// Names that only make the metadata large.
const NAMES: u64 = 1500;

/// How the content comes about, one stage behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// What an old copy of a file knows.
    Older,
    /// Some of that is written anew, and more is made.
    Newer,
    /// A few files of a program that was killed with the daemon.
    Last,
}

impl Stage {
    pub(super) const ALL: [Stage; 3] = [Stage::Older, Stage::Newer, Stage::Last];

    pub(super) fn name(self) -> &'static str {
        match self {
            Stage::Older => "older",
            Stage::Newer => "newer",
            Stage::Last => "last",
        }
    }
}

fn write(path: &Path, random: &mut Random) -> io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(false).open(path)?;
    let bytes: Vec<u8> = (0..random.below(FILE_BYTES_MAX)).map(|_| random.next() as u8 | 1).collect();
    file.write_all(&bytes)?;
    file.sync_all()
}

/// Makes the content of a stage, the same wherever that is.
pub fn fill(root: &Path, seed: u64, stage: &str) -> io::Result<()> {
    let stage = Stage::ALL.into_iter().find(|known| known.name() == stage);
    let stage = stage.ok_or_else(|| io::Error::other("there is no such stage"))?;
    let mut random = Random::new(seed ^ stage as u64);
    let directory = |number: u64| root.join(format!("directory-{number}"));
    if stage == Stage::Older {
        for number in 0..DIRECTORIES {
            fs::create_dir(directory(number))?;
        }
    }
    let files = if stage == Stage::Last { FILES / 8 } else { FILES };
    for number in 0..files {
        let path = directory(random.below(DIRECTORIES)).join(format!("{}-{number}", stage.name()));
        write(&path, &mut random)?;
        match random.below(8) {
            0 => symlink(format!("file-{number}"), path.with_extension("link"))?,
            1 => fs::hard_link(&path, path.with_extension("again"))?,
            2 => fs::set_permissions(&path, fs::Permissions::from_mode(0o640))?,
            _ => {}
        }
    }
    if stage == Stage::Last {
        return Ok(());
    }
    let names = root.join(format!("names-{}", stage.name()));
    fs::create_dir(&names)?;
    for number in 0..NAMES {
        File::create(names.join(format!("a name that has some length, number {number}")))?;
    }
    if stage == Stage::Newer {
        let mut older = Vec::new();
        for number in 0..DIRECTORIES {
            for entry in fs::read_dir(directory(number))? {
                let path = entry?.path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if name.starts_with("older") && path.extension().is_none() {
                    older.push(path);
                }
            }
        }
        older.sort();
        for path in older.iter().step_by(3) {
            write(path, &mut random)?;
        }
        for path in older.iter().skip(1).step_by(7) {
            fs::remove_file(path)?;
        }
    }
    File::open(root)?.sync_all()
}

/// How a path reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reading {
    Directory {
        mode: u32,
    },
    File {
        mode: u32,
        links: u64,
        bytes: u64,
        sum: u64,
    },
    Link {
        target: String,
    },
    /// Something of it could not be read.
    Error {
        errno: i32,
        name: String,
    },
}

/// Every path below the root. The root's own is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Readings(pub(super) BTreeMap<String, Reading>);

impl Readings {
    /// All below a folder.
    pub(super) fn of(root: &Path) -> Readings {
        let mut readings = Readings::default();
        readings.read(root, String::new());
        readings
    }

    fn read(&mut self, path: &Path, name: String) {
        let reading = reading(path).unwrap_or_else(|error| failed(&error));
        let is_directory = matches!(reading, Reading::Directory { .. });
        self.0.insert(name.clone(), reading);
        if !is_directory {
            return;
        }
        let listed: io::Result<Vec<_>> = fs::read_dir(path).and_then(Iterator::collect);
        match listed {
            Err(error) => {
                self.0.insert(name, failed(&error));
            }
            Ok(entries) => {
                for entry in entries {
                    self.read(&entry.path(), format!("{name}/{}", entry.file_name().to_string_lossy()));
                }
            }
        }
    }
}

fn failed(error: &io::Error) -> Reading {
    let errno = error.raw_os_error().unwrap_or_default();
    Reading::Error { errno, name: Errno::from_raw_os_error(errno).to_string() }
}

fn reading(path: &Path) -> io::Result<Reading> {
    let metadata = path.symlink_metadata()?;
    let mode = metadata.permissions().mode();
    if metadata.is_dir() {
        return Ok(Reading::Directory { mode });
    }
    if metadata.is_symlink() {
        return Ok(Reading::Link { target: fs::read_link(path)?.to_string_lossy().into_owned() });
    }
    let (mut file, mut bytes) = (File::open(path)?, Vec::new());
    file.read_to_end(&mut bytes)?;
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let links = std::os::unix::fs::MetadataExt::nlink(&metadata);
    Ok(Reading::File { mode, links, bytes: bytes.len() as u64, sum })
}

/// Prints how everything below a folder reads.
pub fn look(root: &Path) -> io::Result<()> {
    let text = serde_json::to_string(&Readings::of(root))?;
    io::stdout().write_all(text.as_bytes())
}
