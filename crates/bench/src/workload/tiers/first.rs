//! The first appends of a process, each with its fsync. A process that has just begun has no log yet, and memory below its file
//! was not touched before.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Figure, Outcome, timed};
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

/// Appends of one size. The process does nothing before them.
#[derive(Clone, Copy, Debug)]
pub struct FirstAppends {
    /// Bytes of a record.
    pub size: u64,
    /// How many.
    pub count: u64,
}

impl FirstAppends {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path) -> Result<Outcome, BenchError> {
        let path = dir.join("first");
        let mut file = File::options()
            .append(true)
            .create_new(true)
            .open(&path)
            .context("opening the file to append to")?;
        let mut record = Stamped::new(self.size);
        let all = timed(Budget { time: Duration::MAX, operations: self.count }, |n| {
            file.write_all(record.with(n)).context("append")?;
            file.sync_all().context("fsync")
        })?;
        let written = File::open(&path).context("opening to read back")?;
        verify_blocks(&written, self.size, self.count, |n| n)?;
        let percentile_99_us = all.latency.value_at_quantile(0.99) as f64 / 1e3;
        Ok(Outcome::default()
            .with_timed(&all)
            .with(Figure::Percentile99, percentile_99_us)
            .with(Figure::LongestWait, all.longest_stall_ms()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_so_many_are_made() {
        let dir = tempfile::tempdir().unwrap();
        let outcome = FirstAppends { size: 128, count: 500 }.run(dir.path()).unwrap();
        assert_eq!(std::fs::metadata(dir.path().join("first")).unwrap().len(), 500 * 128);
        assert!(outcome.figures[&Figure::LongestWait] > 0.0);
    }
}
