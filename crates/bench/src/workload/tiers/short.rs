//! Programs that write one file each and end, as mail is delivered and documents are saved. The shell that starts them touches
//! no file.

use std::path::Path;
use std::time::Instant;

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome};
use crate::workload::pieces::shell::shell;

/// Programs, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct ShortPrograms {
    /// How many.
    pub programs: u32,
}

impl ShortPrograms {
    /// Measures in `dir`: each program syncs its file of 8 KiB.
    pub fn run(&self, dir: &Path) -> Result<Outcome, BenchError> {
        let programs = self.programs;
        let start = Instant::now();
        shell(
            &format!(
                "n=0; while [ $n -lt {programs} ]; do n=$((n+1)); \
                 dd if=/dev/zero of=\"$0/$n\" bs=8k count=1 conv=fsync status=none || exit 1; done"
            ),
            dir,
        )?;
        let seconds = start.elapsed().as_secs_f64();
        let found = std::fs::read_dir(dir).context("listing the files")?.count();
        if found != programs as usize {
            return Err(BenchError::Corrupt(format!("{found} files instead of {programs}")));
        }
        Ok(Outcome::of(Figure::Rate, f64::from(programs) / seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_writes_its_file_and_a_file_too_many_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let outcome = ShortPrograms { programs: 5 }.run(dir.path()).unwrap();
        assert!(outcome.figures[&Figure::Rate] > 0.0);
        assert_eq!(std::fs::metadata(dir.path().join("5")).unwrap().len(), 8 << 10);
        let ended = ShortPrograms { programs: 4 }.run(dir.path());
        assert!(matches!(ended, Err(BenchError::Corrupt(_))));
    }
}
