//! Large writes without end, one after the other through a file and from its start again, far past the size of
//! any log. The fsync at the end belongs to the time, not to the stalls.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Figure, Outcome, timed};
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

/// Writes of one size.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Bytes of a write.
    pub size: u64,
    /// Where the file ends, and writing goes on at its start.
    pub file_bytes: u64,
}

impl Stream {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.join("stream"))
            .context("making the file to stream to")?;
        let blocks = self.file_bytes / self.size;
        let mut block = Stamped::new(self.size);
        let start = Instant::now();
        let written = timed(Budget { time, operations: u64::MAX }, |n| {
            file.write_all_at(block.with(n), (n % blocks) * self.size).context("pwrite")
        })?;
        file.sync_all().context("fsync")?;
        let seconds = start.elapsed().as_secs_f64();

        let last = written.operations - 1;
        verify_blocks(&file, self.size, blocks.min(written.operations), |slot| {
            slot + (last - slot) / blocks * blocks
        })?;
        let bandwidth = (written.operations * self.size) as f64 / 1e6 / seconds;
        Ok(Outcome::default().with_timed(&written).with(Figure::Bandwidth, bandwidth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_the_last_lap() {
        let dir = tempfile::tempdir().unwrap();
        let stream = Stream { size: 4096, file_bytes: 16 * 4096 };
        let outcome = stream.run(dir.path(), Duration::from_millis(20)).unwrap();
        let length = std::fs::metadata(dir.path().join("stream")).unwrap().len();
        assert!(length > 0 && length <= 16 * 4096);
        assert!(outcome.figures[&Figure::Bandwidth] > 0.0);
    }
}
