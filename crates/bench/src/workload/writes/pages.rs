//! One file of pages, touched in random order: overwritten, with an fsync behind each or without, or read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Figure, Outcome, burst, timed};
use crate::figures::stats::Summary;
use crate::workload::pieces::pauses::SETTLE;
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

const SEED: u64 = 0x5eed;
const WARM_UP: u64 = 64;
/// The file is filled by writes of so much.
const FILLED_AT_ONCE: u64 = 1 << 20;

/// The operation on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageWork {
    /// Overwrite it.
    Overwrite,
    /// Overwrite it, fsync.
    OverwriteAndSync,
    /// Read it.
    Read,
}

/// A file and what is done to its pages.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// What.
    pub work: PageWork,
    /// Bytes of a page.
    pub size: u64,
    /// The size of the file: whole pages.
    pub file_bytes: u64,
    /// Bytes of a burst: well under the log.
    pub burst_bytes: u64,
    /// Bursts; their median is reported.
    pub bursts: u32,
}

impl Pages {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.join("pages"))
            .context("making the file of pages")?;
        let mut stamps: Vec<u64> = (0..self.file_bytes / self.size).collect();
        self.prepare(&file, &stamps)?;

        let mut random = fastrand::Rng::with_seed(SEED);
        let mut page = Stamped::new(self.size);
        let mut buffer = vec![0; self.size as usize];
        let mut next = stamps.len() as u64;
        let mut operation = |_| {
            let index = random.usize(..stamps.len());
            let at = index as u64 * self.size;
            match self.work {
                PageWork::Overwrite | PageWork::OverwriteAndSync => {
                    file.write_all_at(page.with(next), at).context("pwrite")?;
                    if self.work == PageWork::OverwriteAndSync {
                        file.sync_all().context("fsync")?;
                    }
                    stamps[index] = next;
                    next += 1;
                }
                PageWork::Read => {
                    file.read_exact_at(&mut buffer, at).context("pread")?;
                    if buffer[..8] != stamps[index].to_le_bytes() {
                        return Err(BenchError::Corrupt(format!("page {index} holds another number")));
                    }
                }
            }
            Ok(())
        };

        burst(Budget { time: Duration::MAX, operations: WARM_UP }, &mut operation)?;
        let in_log = Budget { time: time / 2, operations: self.burst_bytes / self.size };
        let mut rates = Vec::new();
        for _ in 0..self.bursts {
            std::thread::sleep(SETTLE);
            rates.push(burst(in_log, &mut operation)?.rate());
        }
        std::thread::sleep(SETTLE);
        let sustained = timed(Budget { time, operations: u64::MAX }, &mut operation)?;

        verify_blocks(&file, self.size, stamps.len() as u64, |page| stamps[page as usize])?;
        let rate = Summary::of(rates).expect("a work has bursts").median;
        Ok(Outcome::of(Figure::BurstRate, rate).with_timed(&sustained))
    }

    /// Writes the file, and reads it once, so that whatever caches there are know it.
    fn prepare(&self, file: &File, stamps: &[u64]) -> Result<(), BenchError> {
        let pages_per_write = (FILLED_AT_ONCE / self.size).max(1) as usize;
        let mut page = Stamped::new(self.size);
        for (chunk, stamps) in stamps.chunks(pages_per_write).enumerate() {
            let bytes: Vec<u8> = stamps.iter().flat_map(|&stamp| page.with(stamp).to_vec()).collect();
            let at = (chunk * pages_per_write) as u64 * self.size;
            file.write_all_at(&bytes, at).context("filling the file of pages")?;
        }
        file.sync_all().context("fsync of the file of pages")?;
        std::thread::sleep(SETTLE);
        verify_blocks(file, self.size, stamps.len() as u64, |page| stamps[page as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;
    const SMALL: Pages =
        Pages { work: PageWork::Read, size: PAGE, file_bytes: 16 * PAGE, burst_bytes: 8 * PAGE, bursts: 2 };

    #[test]
    fn overwritten_pages_hold_the_last_number_written() {
        for (work, size) in [(PageWork::OverwriteAndSync, PAGE), (PageWork::Overwrite, 64)] {
            let dir = tempfile::tempdir().unwrap();
            let pages = Pages { work, size, file_bytes: 16 * size, ..SMALL };
            pages.run(dir.path(), Duration::from_millis(20)).unwrap();
            let bytes = std::fs::read(dir.path().join("pages")).unwrap();
            assert_eq!(bytes.len() as u64, pages.file_bytes);
            let numbers: std::collections::BTreeSet<_> =
                bytes.chunks(size as usize).map(|page| page[..8].to_vec()).collect();
            assert_eq!(numbers.len(), 16, "no two pages hold the same number");
        }
    }

    #[test]
    fn reading_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let outcome = SMALL.run(dir.path(), Duration::from_millis(20)).unwrap();
        let bytes = std::fs::read(dir.path().join("pages")).unwrap();
        for (n, page) in bytes.chunks(PAGE as usize).enumerate() {
            assert_eq!(page[..8], (n as u64).to_le_bytes());
        }
        assert!(outcome.figures[&Figure::BurstRate] > 0.0);
    }
}
