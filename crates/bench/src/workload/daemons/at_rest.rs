//! A store full of files, and programs that have something of it open and do nothing: what SharedFS takes, and does,
//! for the sake of those who ask for nothing.
//!
//! One process makes the files; another one looks at each of them; so many others open one each, and read or write it.
//! When all have, one says so, and all stay until they are killed. The daemon is measured, from outside
//! ([`crate::processes::daemon`]).

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::error::{BenchError, Context};
use crate::figures::measure::Outcome;
use crate::workload::pieces::members;

/// The line that is printed when all are there.
pub const AT_REST: &str = "at rest";

/// Files of a directory.
const DIRECTORY_FILES: u64 = 1000;
/// One file in so many has content: as many as fit beside the rest of a store of 4 GiB.
const CONTENT_EVERY: u64 = 4;
const CONTENT: [u8; 100] = [b'c'; 100];

/// Files, and sessions beside.
#[derive(Clone, Copy, Debug)]
pub struct AtRest {
    /// How many files there are.
    pub files: u64,
    /// How many programs have one of them open.
    pub sessions: u32,
    /// Whether they have written to it, or read it.
    pub have_written: bool,
}

impl AtRest {
    /// Does all that and stays; comes back only with an error, or when the runner has gone.
    pub fn stay(&self, dir: &Path) -> Result<Outcome, BenchError> {
        for directory in 0..self.files.div_ceil(DIRECTORY_FILES) {
            std::fs::create_dir(dir.join(format!("{directory:04}"))).context("making a directory")?;
        }
        for number in 0..self.files {
            let mut file = File::create_new(path(dir, number)).context("making a file")?;
            if number.is_multiple_of(CONTENT_EVERY) {
                file.write_all(&CONTENT).context("writing a file")?;
            }
        }
        members::run(self.sessions + 1, |member| {
            let _open = match u64::from(member.number).checked_sub(1) {
                None => {
                    self.look_at_all(dir)?;
                    None
                }
                Some(number) => Some(self.open_one(dir, number)?),
            };
            member.wait_for_all()?;
            if member.number == 0 {
                let mut output = std::io::stdout();
                writeln!(output, "{AT_REST}").and_then(|()| output.flush()).context("saying so")?;
            }
            // Waiting processes are killed, and none of them outlives the runner.
            std::io::stdin().read_to_end(&mut Vec::new()).context("waiting")?;
            Ok(Outcome::default())
        })?;
        Ok(Outcome::default())
    }

    fn look_at_all(&self, dir: &Path) -> Result<(), BenchError> {
        for number in 0..self.files {
            let wanted = if number.is_multiple_of(CONTENT_EVERY) { CONTENT.len() as u64 } else { 0 };
            let found = path(dir, number).metadata().context("looking at a file")?.len();
            if found != wanted {
                return Err(BenchError::Corrupt(format!("a file of {found} bytes instead of {wanted}")));
            }
        }
        Ok(())
    }

    fn open_one(&self, dir: &Path, session: u64) -> Result<File, BenchError> {
        let slots = (self.files / CONTENT_EVERY).max(1);
        let path = path(dir, session * slots / u64::from(self.sessions) % slots * CONTENT_EVERY);
        let file =
            File::options().read(true).write(self.have_written).open(&path).context("opening a file")?;
        if self.have_written {
            file.write_all_at(&CONTENT, 0).context("writing a file")?;
        }
        let mut found = [0; CONTENT.len()];
        file.read_exact_at(&mut found, 0).context("reading a file")?;
        if found != CONTENT {
            return Err(BenchError::Corrupt("a file does not hold what was written".into()));
        }
        Ok(file)
    }
}

fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{:04}/file-{number:07}", number / DIRECTORY_FILES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_made_and_looked_at_and_a_difference_is_told() {
        for have_written in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let rest = AtRest { files: 1500, sessions: 3, have_written };
            for directory in ["0000", "0001"] {
                std::fs::create_dir(dir.path().join(directory)).unwrap();
            }
            for number in 0..rest.files {
                let content: &[u8] = if number % CONTENT_EVERY == 0 { &CONTENT } else { &[] };
                std::fs::write(path(dir.path(), number), content).unwrap();
            }
            rest.look_at_all(dir.path()).unwrap();
            (0..3).for_each(|session| drop(rest.open_one(dir.path(), session).unwrap()));
            std::fs::write(path(dir.path(), 0), [b'x'; 101]).unwrap();
            assert!(matches!(rest.look_at_all(dir.path()), Err(BenchError::Corrupt(_))));
            assert_eq!(rest.open_one(dir.path(), 0).is_ok(), have_written);
        }
    }
}
