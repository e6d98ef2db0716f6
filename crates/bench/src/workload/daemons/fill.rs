//! A writer that never ends by itself: it fills a log until the runner kills it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{BenchError, Context};
use crate::figures::measure::Outcome;
use crate::figures::units::{KIB, MIB};
use crate::workload::pieces::stamp::Stamped;

/// The line that it prints when it is about to begin.
pub const READY: &str = "filling";

/// The entries that the log is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Small records: the most entries a log can hold.
    Appends,
    /// New files put in place by rename: the most metadata.
    Creates,
    /// Writes of 1 MiB: the most payload.
    Large,
    /// Directories moved far below the root, and their ancestors moved: the most to be walked for an entry.
    Moves,
}

/// The files stay under this size, the names under this number, however long it takes.
const FILE_BYTES_MAX: u64 = 256 * MIB;
const NAMES_MAX: u64 = 100_000;
/// Directories on the way to those that are moved: no path is too long by far.
const DEPTH: usize = 1000;

impl Filling {
    /// Fills until killed; comes back only with an error.
    pub fn run_until_killed(self, dir: &Path) -> Result<Outcome, BenchError> {
        let file = File::create(dir.join("filled")).context("making the file to fill")?;
        let mut blocks = match self {
            Filling::Appends => Stamped::new(128),
            Filling::Creates => Stamped::new(4 * KIB),
            Filling::Large => Stamped::new(MIB),
            Filling::Moves => {
                make_way(dir)?;
                Stamped::new(128)
            }
        };
        println!("{READY}");
        std::io::stdout().flush().context("saying so")?;
        let mut n = 0;
        loop {
            self.step(dir, &file, &mut blocks, n)?;
            n += 1;
        }
    }

    fn step(self, dir: &Path, file: &File, blocks: &mut Stamped, n: u64) -> Result<(), BenchError> {
        let block = blocks.with(n);
        match self {
            Filling::Appends | Filling::Large => {
                let size = block.len() as u64;
                file.write_all_at(block, n % (FILE_BYTES_MAX / size) * size).context("pwrite")?;
                file.sync_all().context("fsync")
            }
            Filling::Creates => {
                let temporary = dir.join("temporary");
                let mut new = File::create(&temporary).context("create")?;
                new.write_all(block).context("write")?;
                new.sync_all().context("fsync")?;
                std::fs::rename(&temporary, dir.join(format!("{:06}", n % NAMES_MAX))).context("rename")
            }
            Filling::Moves => {
                let bottom = |top: &str, name: &str| way(&dir.join(top)).join(name);
                let (from, to) = match n % 4 {
                    0 => (bottom("x", "a/m"), bottom("x", "b/m")),
                    1 => (dir.join("x/t"), dir.join("y/t")),
                    2 => (bottom("y", "b/m"), bottom("y", "a/m")),
                    _ => (dir.join("y/t"), dir.join("x/t")),
                };
                std::fs::rename(from, to).context("moving a directory")
            }
        }
    }
}

/// The end of the way below `top`.
fn way(top: &Path) -> PathBuf {
    top.join("t").join("d/".repeat(DEPTH))
}

/// Makes the directories that [`Filling::Moves`] moves, and those above them.
fn make_way(dir: &Path) -> Result<(), BenchError> {
    let end = way(&dir.join("x"));
    for made in [dir.join("y"), end.join("b"), end.join("a/m")] {
        std::fs::create_dir_all(made).context("making directories to move")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filling_writes_what_it_says() {
        for (filling, size) in [(Filling::Appends, 128), (Filling::Creates, 4 * KIB), (Filling::Large, MIB)] {
            let dir = tempfile::tempdir().unwrap();
            let file = File::create(dir.path().join("filled")).unwrap();
            let mut blocks = Stamped::new(size);
            for n in 0..3 {
                filling.step(dir.path(), &file, &mut blocks, n).unwrap();
            }
            let length = std::fs::metadata(dir.path().join("filled")).unwrap().len();
            assert_eq!(length, if filling == Filling::Creates { 0 } else { 3 * size });
            assert_eq!(dir.path().join("000002").exists(), filling == Filling::Creates);
        }
    }

    #[test]
    fn directories_are_moved_deep_down_and_high_up() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("filled")).unwrap();
        make_way(dir.path()).unwrap();
        let mut blocks = Stamped::new(128);
        for (n, (top, name)) in
            [("x", "b/m"), ("y", "b/m"), ("y", "a/m"), ("x", "a/m")].into_iter().enumerate()
        {
            Filling::Moves.step(dir.path(), &file, &mut blocks, n as u64).unwrap();
            assert!(way(&dir.path().join(top)).join(name).exists(), "{n}");
        }
    }
}
