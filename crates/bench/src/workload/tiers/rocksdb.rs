//! RocksDB, filled and read by its own `db_bench`, which also measures. A peer that waits for a disk writes fewer keys than one that does
//! not: as many as it can in the time.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome};

/// The program, which the package rocksdb-tools has.
pub const PROGRAM: &str = "db_bench";

const KEY_BYTES: u64 = 16;
/// Keys of a first run, which tells whether the peer waits for a disk.
const PROBED_KEYS: u64 = 2000;
/// A peer that does fewer a second is given as many keys as it does in the time,
const SLOW_RATE: f64 = 10_000.0;
/// and others are given so many for each second.
const KEYS_PER_SECOND: f64 = 100_000.0;
/// Keys that are read back.
const READ_KEYS: u64 = 1000;

/// The phase of a database that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Keys are written in order, each with a sync.
    Fill,
    /// The same; then they are written again, in random order and without a sync, which is not measured.
    FillAndOverwrite,
    /// Each key is written once, in random order, with a sync.
    FillInRandomOrder,
    /// Keys that were written without a sync are read in order.
    ReadInOrder,
}

/// A database.
#[derive(Clone, Copy, Debug)]
pub struct RocksDb {
    /// Bytes of a value.
    pub value_bytes: u64,
    /// The phase that counts.
    pub phase: Phase,
}

/// What `db_bench` says of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Told {
    rate: f64,
    percentile_99_us: f64,
    longest_us: f64,
}

impl RocksDb {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let (existing, histogram) = ("--use_existing_db=1", "--histogram=1");
        let synced = ["--sync=1", histogram];
        let fill = if self.phase == Phase::FillInRandomOrder { "filluniquerandom" } else { "fillseq" };
        let filled = dir.join("filled");
        let keys_in_time = |rate: f64| ((rate * time.as_secs_f64()) as u64).max(PROBED_KEYS);
        let (measured, keys) = if self.phase == Phase::ReadInOrder {
            let keys = keys_in_time(KEYS_PER_SECOND);
            self.bench(&filled, fill, keys, &[])?;
            (told(&self.bench(&filled, "readseq", keys, &[existing, histogram])?, "readseq")?, keys)
        } else {
            let probed = told(&self.bench(&dir.join("probed"), fill, PROBED_KEYS, &synced)?, fill)?;
            let keys = keys_in_time(if probed.rate < SLOW_RATE { probed.rate } else { KEYS_PER_SECOND });
            (told(&self.bench(&filled, fill, keys, &synced)?, fill)?, keys)
        };
        if self.phase == Phase::FillAndOverwrite {
            self.bench(&filled, "overwrite", keys, &[existing])?;
        }
        let reads = format!("--reads={READ_KEYS}");
        let read = self.bench(&filled, "readrandom", keys, &[existing, &reads])?;
        let wanted = format!("({READ_KEYS} of {READ_KEYS} found)");
        if !read.contains(&wanted) {
            return Err(BenchError::Corrupt(format!("db_bench does not say {wanted}")));
        }
        Ok(Outcome::of(Figure::Rate, measured.rate)
            .with(Figure::Percentile99, measured.percentile_99_us)
            .with(Figure::LongestWait, measured.longest_us / 1e3))
    }

    fn bench(
        &self,
        database: &Path,
        benchmark: &str,
        keys: u64,
        options: &[&str],
    ) -> Result<String, BenchError> {
        let mut command = Command::new(PROGRAM);
        command.arg(format!("--benchmarks={benchmark}")).arg(format!("--db={}", database.display()));
        command.arg(format!("--num={keys}")).arg(format!("--value_size={}", self.value_bytes));
        command.arg(format!("--key_size={KEY_BYTES}")).arg("--compression_type=none").args(options);
        let output = command.stdin(Stdio::null()).output().context("running db_bench")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let words = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
        Err(BenchError::Child { what: PROGRAM.into(), status: output.status.to_string(), words })
    }
}

/// What the output says of `benchmark`.
fn told(output: &str, benchmark: &str) -> Result<Told, BenchError> {
    let begins = output
        .lines()
        .find(|line| line.strip_prefix(benchmark).is_some_and(|rest| rest.trim_start().starts_with(':')));
    let longest = output.lines().find(|line| line.starts_with("Min:"));
    let percentiles = output.lines().find(|line| line.starts_with("Percentiles:"));
    let all = begins.and_then(|line| number_before(line, "ops/sec")).and_then(|rate| {
        let longest_us = number_behind(longest?, "Max:")?;
        Some(Told { rate, percentile_99_us: number_behind(percentiles?, "P99:")?, longest_us })
    });
    all.ok_or_else(|| BenchError::Unusable(format!("db_bench does not tell how {benchmark} went")))
}

fn number_before(line: &str, word: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|&found| found == word)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

fn number_behind(line: &str, word: &str) -> Option<f64> {
    line.split_whitespace().skip_while(|&found| found != word).nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
Initializing RocksDB Options from the specified file
DB path: [/cuesta/db]
fillseq      :       9.126 micros/op 109568 ops/sec 2.738 seconds 300000 operations;  106.2 MB/s
Microseconds per write:
Count: 300000 Average: 8.1140  StdDev: 159.59
Min: 2  Median: 2.5535  Max: 47028
Percentiles: P50: 2.55 P75: 2.94 P99: 18.33 P99.9: 229.13 P99.99: 6144.83
";

    #[test]
    fn what_db_bench_says_is_understood() {
        let wanted = Told { rate: 109_568.0, percentile_99_us: 18.33, longest_us: 47_028.0 };
        assert_eq!(told(OUTPUT, "fillseq").unwrap(), wanted);
        assert!(told(OUTPUT, "fill").is_err() && told("fillseq : nothing", "fillseq").is_err());
    }

    #[test]
    fn keys_are_filled_and_found_again() {
        if Command::new(PROGRAM).arg("--version").output().is_err() {
            println!("skipped: db_bench is not installed");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        for (number, phase) in
            [Phase::FillAndOverwrite, Phase::FillInRandomOrder, Phase::ReadInOrder].into_iter().enumerate()
        {
            let dir = dir.path().join(number.to_string());
            std::fs::create_dir(&dir).unwrap();
            let outcome = RocksDb { value_bytes: 100, phase }.run(&dir, Duration::from_millis(1)).unwrap();
            assert!(outcome.figures[&Figure::Rate] > 0.0 && outcome.figures[&Figure::LongestWait] > 0.0);
        }
    }
}
