//! How fast what programs log comes into the shared area: from their first call until another process has read their last.
//!
//! Processes do far more than their logs hold, so they wait for the digest all the time or are slower than it; then they end,
//! and the one that started them reads the end of each file, for which a log is digested to its end. The result
//! is the *least* rate of the digest, beside the programs on the same processors.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Figure, Outcome, burst};
use crate::workload::pieces::members;
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

const MIB: u64 = 1 << 20;
/// Bytes of a small file, and of an overwrite.
const SMALL: u64 = 128;
/// A place of the overwrites, from their first one on.
const PLACES: u64 = 512;

/// The entries that the logs are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folded {
    /// Writes of 1 MiB that nothing follows: all of it is copied.
    Fresh,
    /// Files made under a temporary name, written, renamed and removed:
    /// of four operations each, next to nothing is left to be copied.
    Temporary,
    /// Small writes over a few places.
    Overwrites,
}

/// Sessions whose logs are digested.
#[derive(Clone, Copy, Debug)]
pub struct Digest {
    /// With what.
    pub folded: Folded,
    /// How many at once.
    pub processes: u32,
    /// Bytes that each writes at most, whatever the time.
    pub bytes_max: u64,
}

impl Digest {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let start = Instant::now();
        let outcomes = members::run(self.processes, |member| {
            let mut log = Log::new(*self, dir, member.number)?;
            member.wait_for_all()?;
            let budget = Budget { time, operations: self.bytes_max.div_ceil(log.block_bytes()) };
            let done = burst(budget, |n| log.step(n))?;
            // A count takes the way that latencies take: a pair of numbers.
            Ok(Outcome { latency: vec![(0, done.operations)], ..Outcome::default() })
        })?;
        let steps: Vec<u64> =
            outcomes.iter().flat_map(|outcome| &outcome.latency).map(|pair| pair.1).collect();
        for (number, &steps) in (0..).zip(&steps) {
            self.look_at_end(dir, number, steps)?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let all: u64 = steps.iter().sum();
        for (number, &steps) in (0..).zip(&steps) {
            self.verify(dir, number, steps)?;
        }
        let (operations, bytes) = (all * self.folded.operations(), all * self.folded.block_bytes());
        Ok(Outcome::of(Figure::Rate, operations as f64 / seconds)
            .with(Figure::Bandwidth, bytes as f64 / 1e6 / seconds))
    }

    /// Sees what a process did last.
    fn look_at_end(&self, dir: &Path, number: u32, steps: u64) -> Result<(), BenchError> {
        let size = self.folded.block_bytes();
        let last = steps - 1;
        let slot = match self.folded {
            Folded::Fresh => last,
            Folded::Overwrites => last % PLACES,
            Folded::Temporary => {
                let left = std::fs::read_dir(names(dir, number).0).context("listing what is left")?.count();
                return if left == 0 { Ok(()) } else { Err(corrupt(left)) };
            }
        };
        let mut block = vec![0; size as usize];
        let file = File::open(written(dir, number)).context("opening what was written")?;
        file.read_exact_at(&mut block, slot * size).context("reading what was written last")?;
        if block[..8] == last.to_le_bytes() { Ok(()) } else { Err(corrupt(1)) }
    }

    fn verify(&self, dir: &Path, number: u32, steps: u64) -> Result<(), BenchError> {
        let open = || File::open(written(dir, number)).context("opening to read back");
        let last = steps - 1;
        match self.folded {
            Folded::Fresh => verify_blocks(&open()?, MIB, steps, |n| n),
            Folded::Overwrites => verify_blocks(&open()?, SMALL, steps.min(PLACES), |slot| {
                slot + (last - slot) / PLACES * PLACES
            }),
            Folded::Temporary => Ok(()),
        }
    }
}

impl Folded {
    fn block_bytes(self) -> u64 {
        if self == Folded::Fresh { MIB } else { SMALL }
    }

    /// Operations of a step.
    fn operations(self) -> u64 {
        if self == Folded::Temporary { 4 } else { 1 }
    }
}

fn corrupt(wrong: usize) -> BenchError {
    BenchError::Corrupt(format!("what another process did last is not seen: {wrong} wrong"))
}

/// One that fills a log.
struct Log {
    folded: Folded,
    block: Stamped,
    file: Option<File>,
    temporary: PathBuf,
    name: PathBuf,
}

impl Log {
    fn new(digest: Digest, dir: &Path, number: u32) -> Result<Log, BenchError> {
        let (folder, temporary, name) = names(dir, number);
        let file = match digest.folded {
            Folded::Temporary => {
                std::fs::create_dir(folder).context("making a directory")?;
                None
            }
            Folded::Fresh | Folded::Overwrites => {
                Some(File::create_new(written(dir, number)).context("making the file")?)
            }
        };
        let block = Stamped::new(digest.folded.block_bytes());
        Ok(Log { folded: digest.folded, block, file, temporary, name })
    }

    fn block_bytes(&self) -> u64 {
        self.folded.block_bytes()
    }

    fn step(&mut self, n: u64) -> Result<(), BenchError> {
        let size = self.block_bytes();
        let block = self.block.with(n);
        let Some(file) = &self.file else {
            let made = File::create_new(&self.temporary).context("create")?;
            made.write_all_at(block, 0).context("write")?;
            drop(made);
            std::fs::rename(&self.temporary, &self.name).context("rename")?;
            return std::fs::remove_file(&self.name).context("unlink");
        };
        let slot = if self.folded == Folded::Fresh { n } else { n % PLACES };
        file.write_all_at(block, slot * size).context("pwrite")
    }
}

fn written(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("written-{number}"))
}

/// A directory of temporary files, and both names of one.
fn names(dir: &Path, number: u32) -> (PathBuf, PathBuf, PathBuf) {
    let folder = dir.join(format!("temporary-{number}"));
    (folder.clone(), folder.join("new"), folder.join("name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_seen_by_another_process_than_its_writer() {
        for folded in [Folded::Fresh, Folded::Temporary, Folded::Overwrites] {
            let dir = tempfile::tempdir().unwrap();
            let digest = Digest { folded, processes: 2, bytes_max: 3 * folded.block_bytes() };
            let outcome = digest.run(dir.path(), Duration::from_secs(60)).unwrap();
            assert!(outcome.figures[&Figure::Rate] > 0.0 && outcome.figures[&Figure::Bandwidth] > 0.0);
        }
    }
}
