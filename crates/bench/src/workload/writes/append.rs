//! Append one record, fsync, again: a log, a mail spool, a database journal.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Figure, Outcome, burst, timed};
use crate::figures::stats::Summary;
use crate::workload::pieces::pauses::SETTLE;
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

/// Records made before anything is measured.
const WARM_UP: u64 = 64;

/// Appends of one size.
#[derive(Clone, Copy, Debug)]
pub struct Append {
    /// Bytes of a record.
    pub size: u64,
    /// Bytes of a burst: well under the log.
    pub burst_bytes: u64,
    /// Bursts; their median is reported.
    pub bursts: u32,
    /// The sustained phase ends here, whatever the time.
    pub bytes_max: u64,
}

impl Append {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let path = dir.join("appended");
        let mut file = File::options()
            .append(true)
            .create_new(true)
            .open(&path)
            .context("opening the file to append to")?;
        let mut record = Stamped::new(self.size);
        let mut next = 0;
        let mut append = |_| {
            file.write_all(record.with(next)).context("append")?;
            file.sync_all().context("fsync")?;
            next += 1;
            Ok(())
        };

        burst(Budget { time: Duration::MAX, operations: WARM_UP }, &mut append)?;
        let in_log = Budget { time: time / 2, operations: self.burst_bytes.div_ceil(self.size) };
        let mut rates = Vec::new();
        for _ in 0..self.bursts {
            std::thread::sleep(SETTLE);
            rates.push(burst(in_log, &mut append)?.rate());
        }
        std::thread::sleep(SETTLE);
        let sustained = timed(Budget { time, operations: self.bytes_max.div_ceil(self.size) }, &mut append)?;

        let written = File::open(&path).context("opening to read back")?;
        verify_blocks(&written, self.size, next, |n| n)?;
        let rate = Summary::of(rates).expect("a work has bursts").median;
        Ok(Outcome::of(Figure::BurstRate, rate).with_timed(&sustained))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_there_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let append = Append { size: 128, burst_bytes: 1280, bursts: 3, bytes_max: 2560 };
        let outcome = append.run(dir.path(), Duration::from_secs(60)).unwrap();
        let bytes = std::fs::read(dir.path().join("appended")).unwrap();
        let records = WARM_UP + 3 * 10 + 20;
        assert_eq!(bytes.len() as u64, records * 128);
        for (n, record) in bytes.chunks(128).enumerate() {
            assert_eq!(record[..8], (n as u64).to_le_bytes());
        }
        assert!(outcome.figures.contains_key(&Figure::Rate));
        assert!(outcome.figures.contains_key(&Figure::BurstRate));
    }
}
