//! A file is made under a temporary name, written, fsynced and renamed into place: how mail, package managers
//! and editors save. All in one directory, sustained.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Outcome, timed};
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

const WARM_UP: u64 = 16;
/// One file in so many is read back.
const VERIFIED_EVERY: u64 = 97;

/// Files of one size.
#[derive(Clone, Copy, Debug)]
pub struct Create {
    /// Bytes of each.
    pub size: u64,
    /// So many names; then they are replaced, oldest first.
    pub live_files: u64,
}

impl Create {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let mut saver = Saver::new(*self, dir, "");
        timed(Budget { time: Duration::MAX, operations: WARM_UP }, |_| saver.save())?;
        let sustained = timed(Budget { time, operations: u64::MAX }, |_| saver.save())?;
        Saver::verify(*self, dir, "", saver.next)?;
        Ok(Outcome::default().with_timed(&sustained))
    }
}

/// One that saves files, under names that begin alike.
pub struct Saver {
    create: Create,
    dir: PathBuf,
    prefix: String,
    content: Stamped,
    next: u64,
}

impl Saver {
    /// Nothing saved yet.
    pub fn new(create: Create, dir: &Path, prefix: &str) -> Saver {
        let (dir, prefix) = (dir.to_owned(), prefix.to_owned());
        Saver { create, dir, prefix, content: Stamped::new(create.size), next: 0 }
    }

    /// Saves the next file.
    pub fn save(&mut self) -> Result<(), BenchError> {
        let (temporary, name) = names(&self.dir, &self.prefix, self.next % self.create.live_files);
        let mut file = File::create_new(&temporary).context("create")?;
        file.write_all(self.content.with(self.next)).context("write")?;
        file.sync_all().context("fsync")?;
        drop(file);
        std::fs::rename(&temporary, &name).context("rename")?;
        self.next += 1;
        Ok(())
    }

    /// Checks what is there after `saved` files.
    pub fn verify(create: Create, dir: &Path, prefix: &str, saved: u64) -> Result<(), BenchError> {
        let names_wanted = saved.min(create.live_files);
        let mut names_found = 0;
        for entry in std::fs::read_dir(dir).context("listing the directory")? {
            let name = entry.context("listing the directory")?.file_name();
            names_found += u64::from(name.as_encoded_bytes().starts_with(prefix.as_bytes()));
        }
        if names_found != names_wanted {
            return Err(BenchError::Corrupt(format!("{names_found} names instead of {names_wanted}")));
        }
        for slot in (0..names_wanted).step_by(VERIFIED_EVERY as usize) {
            let file = File::open(names(dir, prefix, slot).1).context("opening to read back")?;
            let laps = (saved - 1 - slot) / create.live_files;
            verify_blocks(&file, create.size, 1, |_| slot + laps * create.live_files)?;
        }
        Ok(())
    }
}

/// The temporary and the final name of file `slot`.
fn names(dir: &Path, prefix: &str, slot: u64) -> (PathBuf, PathBuf) {
    let name = dir.join(format!("{prefix}message-{slot:07}"));
    (name.with_extension("new"), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::measure::Figure;

    #[test]
    fn names_are_made_and_then_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let create = Create { size: 4096, live_files: 10 };
        let outcome = create.run(dir.path(), Duration::from_millis(30)).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 10);
        assert!(outcome.figures.contains_key(&Figure::LongestStall));
        std::fs::write(dir.path().join("message-0000000"), [0; 4096]).unwrap();
        assert!(matches!(Saver::verify(create, dir.path(), "", 16), Err(BenchError::Corrupt(_))));
    }

    #[test]
    fn a_name_too_many_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("stray"), "").unwrap();
        let create = Create { size: 64, live_files: 10 };
        let ended = create.run(dir.path(), Duration::from_millis(5));
        assert!(matches!(ended, Err(BenchError::Corrupt(_))));
    }
}
