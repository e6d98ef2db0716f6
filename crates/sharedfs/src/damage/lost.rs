//! Losses of damaged logs, until `cuesta fsck --repair` told them (docs/decisions/0045).
//!
//! Recovery digests a damaged log as far as it is whole and goes on, because programs need the rest of the store.
//! The losses stay written down beside the store. `cuesta fsck` calls the store damaged for them, and reads of the
//! files concerned fail (EIO), because they hold less than was acknowledged. A file that is cut to nothing, or
//! removed, is whole again.
//!
//! Two files hold the same lines, so that no block that is lost takes both. A line begins with its checksum:
//! `CHECKSUM file INODE SIZE`, or `CHECKSUM log` and words for people.

use super::log_losses::LogLoss;
use crate::Error;
use crate::store::sync_folder;
use cuesta_format::entry::crc32c;
use cuesta_format::geometry::LOST_FILES;
use cuesta_format::{BLOCK_BYTES, BlockAddress, Extent, Geometry, InodeNumber};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The content of the two files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Damaged logs, in words.
    pub(crate) logs: BTreeSet<String>,
    /// Files that lost content, and how long they were at least.
    pub(crate) files: BTreeMap<InodeNumber, u64>,
}

impl Lines {
    /// Those of the store in `tier`: what either file says.
    pub(crate) fn of(tier: &Path) -> Result<Lines, Error> {
        let mut lines = Lines::default();
        for name in LOST_FILES {
            match std::fs::read(tier.join(name)) {
                Ok(bytes) => lines.add_from(&String::from_utf8_lossy(&bytes)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("read what damaged logs lost")(error)),
            }
        }
        Ok(lines)
    }

    fn add_from(&mut self, text: &str) {
        for line in text.lines() {
            let Some((sum, rest)) = line.split_once(' ') else { continue };
            if u32::from_str_radix(sum, 16) != Ok(crc32c(rest.as_bytes())) {
                continue;
            }
            match rest.split_once(' ') {
                Some(("log", words)) => drop(self.logs.insert(words.to_owned())),
                Some(("file", numbers)) => {
                    if let Some((inode, size)) = numbers.split_once(' ')
                        && let (Ok(inode), Ok(size)) = (inode.parse(), size.parse())
                    {
                        self.files.insert(InodeNumber(inode), size);
                    }
                }
                _ => {}
            }
        }
    }

    fn text(&self) -> String {
        let logs = self.logs.iter().map(|words| format!("log {words}"));
        let files = self.files.iter().map(|(inode, size)| format!("file {inode} {size}"));
        logs.chain(files).map(|line| format!("{:08x} {line}\n", crc32c(line.as_bytes()))).collect()
    }

    fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.files.is_empty()
    }

    /// Writes both files, durably, each as a whole; none, if there is nothing to say.
    fn write(&self, tier: &Path) -> Result<(), Error> {
        let failed = Error::io("write down what damaged logs lost");
        for name in LOST_FILES {
            let path = tier.join(name);
            if self.is_empty() {
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
                    _ => continue,
                }
            }
            let unfinished = tier.join(format!("{name}.new"));
            let written = File::create(&unfinished).and_then(|mut file| {
                file.write_all(self.text().as_bytes())?;
                file.sync_all()?;
                std::fs::rename(&unfinished, &path)
            });
            written.map_err(&failed)?;
        }
        sync_folder(tier)
    }
}

/// People were told of everything.
pub(crate) fn forget_all(tier: &Path) -> Result<(), Error> {
    Lines::default().write(tier)
}

/// The losses, as the daemon knows them.
#[derive(Debug)]
pub(crate) struct Lost {
    tier: PathBuf,
    lines: Mutex<Lines>,
    /// Some file is concerned, to look at without the lock.
    has_files: AtomicBool,
}

impl Lost {
    pub(crate) fn open(tier: &Path) -> Result<Lost, Error> {
        let lines = Lines::of(tier)?;
        let has_files = AtomicBool::new(!lines.files.is_empty());
        Ok(Lost { tier: tier.to_owned(), lines: Mutex::new(lines), has_files })
    }

    /// Writes down the losses of a log, of which these files are still there.
    pub(crate) fn add(
        &self,
        loss: &LogLoss,
        words: String,
        exists: impl Fn(InodeNumber) -> bool,
    ) -> Result<(), Error> {
        let mut lines = self.lines.lock();
        lines.logs.insert(words.replace('\n', " "));
        for (&inode, &size) in loss.files.iter().filter(|(inode, _)| exists(**inode)) {
            let known = lines.files.entry(inode).or_default();
            *known = (*known).max(size);
        }
        self.has_files.store(!lines.files.is_empty(), Ordering::Release);
        lines.write(&self.tier)
    }

    /// How long a file was at least that lost content; `None`: it lost none.
    pub(crate) fn size_of(&self, inode: InodeNumber) -> Option<u64> {
        if !self.has_files.load(Ordering::Acquire) {
            return None;
        }
        self.lines.lock().files.get(&inode).copied()
    }

    /// Whether some file lost content.
    pub(crate) fn has_files(&self) -> bool {
        self.has_files.load(Ordering::Acquire)
    }

    /// A file was cut, which a commit knows now: of one that was cut to nothing, or removed, nothing is lost any more.
    pub(crate) fn cut(&self, inode: InodeNumber, size: u64) {
        let mut lines = self.lines.lock();
        match lines.files.get_mut(&inode) {
            Some(known) if size > 0 => *known = size.min(*known),
            Some(_) => drop(lines.files.remove(&inode)),
            None => {}
        }
    }

    /// Writes down which files are whole again.
    pub(crate) fn settle(&self) {
        let lines = self.lines.lock();
        self.has_files.store(!lines.files.is_empty(), Ordering::Release);
        if let Err(error) = lines.write(&self.tier) {
            tracing::warn!(%error, "files that are whole again count as damaged once more at the next start");
        }
    }
}

/// Extents that no session can read, over all of a file that is `size` bytes long, from a block on: they name an arena that no store has.
pub(crate) fn unreadable(geometry: &Geometry, size: u64, from_block: u64) -> Vec<Extent> {
    let end = size.div_ceil(BLOCK_BYTES).max(1);
    let address = BlockAddress(geometry.arena_bytes * u64::from(u32::MAX));
    let starts = (from_block..end).step_by(u32::MAX as usize);
    starts
        .map(|file_block| {
            let blocks = u32::try_from(end - file_block).unwrap_or(u32::MAX);
            Extent { file_block, blocks, address }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_file_says_all_and_a_line_that_is_damaged_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let lines = Lines {
            logs: BTreeSet::from(["the log of session 3".to_owned()]),
            files: BTreeMap::from([(InodeNumber(7), 4500), (InodeNumber(9), 0)]),
        };
        lines.write(folder.path()).unwrap();
        for name in LOST_FILES {
            let path = folder.path().join(name);
            let sound = std::fs::read(&path).unwrap();
            for at in 0..sound.len() {
                let mut damaged = sound.clone();
                damaged[at] ^= 4;
                std::fs::write(&path, damaged).unwrap();
                assert_eq!(Lines::of(folder.path()).unwrap(), lines);
            }
            std::fs::remove_file(&path).unwrap();
            assert_eq!(Lines::of(folder.path()).unwrap(), lines);
            std::fs::write(&path, sound).unwrap();
        }
        forget_all(folder.path()).unwrap();
        assert_eq!(Lines::of(folder.path()).unwrap(), Lines::default());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
