//! A file is made under a temporary name, written, fsynced and renamed into place: how mail, package managers
//! and editors save. All in one directory, sustained.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::stamp::{Stamped, verify_blocks};
use crate::error::{BenchError, Context};
use crate::measure::{Budget, Outcome, timed};

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
        let mut content = Stamped::new(self.size);
        let mut next = 0;
        let mut save = |_| {
            let (temporary, name) = names(dir, next % self.live_files);
            let mut file = File::create_new(&temporary).context("create")?;
            file.write_all(content.with(next)).context("write")?;
            file.sync_all().context("fsync")?;
            drop(file);
            std::fs::rename(&temporary, &name).context("rename")?;
            next += 1;
            Ok(())
        };
        timed(Budget { time: Duration::MAX, operations: WARM_UP }, &mut save)?;
        let sustained = timed(Budget { time, operations: u64::MAX }, &mut save)?;
        self.verify(dir, next)?;
        Ok(Outcome::default().with_timed(&sustained))
    }

    fn verify(&self, dir: &Path, saved: u64) -> Result<(), BenchError> {
        let names_wanted = saved.min(self.live_files);
        let names_found = std::fs::read_dir(dir).context("listing the directory")?.count() as u64;
        if names_found != names_wanted {
            return Err(BenchError::Corrupt(format!("{names_found} names instead of {names_wanted}")));
        }
        for slot in (0..names_wanted).step_by(VERIFIED_EVERY as usize) {
            let file = File::open(names(dir, slot).1).context("opening to read back")?;
            let laps = (saved - 1 - slot) / self.live_files;
            verify_blocks(&file, self.size, 1, |_| slot + laps * self.live_files)?;
        }
        Ok(())
    }
}

/// The temporary and the final name of file `slot`.
fn names(dir: &Path, slot: u64) -> (PathBuf, PathBuf) {
    let name = dir.join(format!("message-{slot:07}"));
    (name.with_extension("new"), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Figure;

    #[test]
    fn names_are_made_and_then_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let create = Create { size: 4096, live_files: 10 };
        let outcome = create.run(dir.path(), Duration::from_millis(30)).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 10);
        assert!(outcome.figures.contains_key(&Figure::LongestStall));
        std::fs::write(dir.path().join("message-0000000"), [0; 4096]).unwrap();
        assert!(matches!(create.verify(dir.path(), 16), Err(BenchError::Corrupt(_))));
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
