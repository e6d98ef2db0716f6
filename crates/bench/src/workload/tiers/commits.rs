//! A database that syncs its log, beside a writer that fills a large table: by two threads of one process, or by two processes.
//! What commits take then is measured. A commit must not wait for the bytes of the table.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Figure, Outcome, timed};
use crate::workload::pieces::members;
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

/// Both, one beside the other.
#[derive(Clone, Copy, Debug)]
pub struct LogBesideTable {
    /// Bytes of a commit, which is appended and synced.
    pub commit_bytes: u64,
    /// Bytes of a write to the table.
    pub write_bytes: u64,
    /// Bytes of the table. Written to the end it is synced, and written again from its start.
    pub table_bytes: u64,
    /// Whether a process of its own writes it.
    pub is_apart: bool,
}

impl LogBesideTable {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let [commits, table] = if self.is_apart {
            let outcomes = members::run(2, |member| {
                member.wait_for_all()?;
                if member.number == 0 { self.commit(dir, time) } else { self.fill(dir, time) }
            })?;
            outcomes.try_into().expect("two members give two outcomes")
        } else {
            let start = Barrier::new(2);
            std::thread::scope(|scope| {
                let table = scope.spawn(|| {
                    start.wait();
                    self.fill(dir, time)
                });
                start.wait();
                let commits = self.commit(dir, time);
                let table = table.join().expect("a thread that fills a table");
                Ok::<_, BenchError>([commits?, table?])
            })?
        };
        let latency = members::together(std::slice::from_ref(&commits));
        let longest = commits.figures[&Figure::LongestStall];
        Ok(latency
            .with(Figure::LongestWait, longest)
            .with(Figure::Bandwidth, table.figures[&Figure::Bandwidth]))
    }

    fn commit(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let path = dir.join("log");
        let mut log = File::options().append(true).create_new(true).open(&path).context("making the log")?;
        let mut record = Stamped::new(self.commit_bytes);
        let commits = timed(Budget { time, operations: u64::MAX }, |n| {
            log.write_all(record.with(n)).context("append")?;
            log.sync_data().context("fdatasync")
        })?;
        let written = File::open(&path).context("opening to read back")?;
        verify_blocks(&written, self.commit_bytes, commits.operations, |n| n)?;
        Ok(Outcome::default().with_timed(&commits))
    }

    fn fill(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let table = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.join("table"))
            .context("making the table")?;
        let writes = self.table_bytes / self.write_bytes;
        let mut block = Stamped::new(self.write_bytes);
        let start = Instant::now();
        let mut n = 0;
        while start.elapsed() < time {
            table.write_all_at(block.with(n), n % writes * self.write_bytes).context("writing the table")?;
            n += 1;
            if n % writes == 0 {
                table.sync_all().context("fsync of the table")?;
            }
        }
        let bandwidth = (n * self.write_bytes) as f64 / 1e6 / start.elapsed().as_secs_f64();
        let last = n - 1;
        verify_blocks(&table, self.write_bytes, writes.min(n), |slot| {
            slot + (last - slot) / writes * writes
        })?;
        Ok(Outcome::of(Figure::Bandwidth, bandwidth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_measured_beside_the_table_in_one_process_and_in_two() {
        for is_apart in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let beside =
                LogBesideTable { commit_bytes: 128, write_bytes: 4096, table_bytes: 8 * 4096, is_apart };
            let outcome = beside.run(dir.path(), Duration::from_millis(20)).unwrap();
            for figure in [Figure::Rate, Figure::Percentile99, Figure::LongestWait, Figure::Bandwidth] {
                assert!(outcome.figures[&figure] > 0.0, "{figure:?}");
            }
            assert!(std::fs::metadata(dir.path().join("table")).unwrap().len() <= 8 * 4096);
        }
    }
}
