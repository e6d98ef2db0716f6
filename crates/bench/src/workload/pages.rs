//! One file of 4 KiB pages, touched in random order: overwrite and fsync, or read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use super::stamp::{Stamped, verify_blocks};
use super::{BURSTS, SETTLE};
use crate::error::{BenchError, Context};
use crate::measure::{Budget, Figure, Outcome, burst, timed};
use crate::stats::Summary;

const PAGE: u64 = 4096;
const SEED: u64 = 0x5eed;
const WARM_UP: u64 = 64;

/// What is done to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageWork {
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
    /// The size of the file.
    pub file_bytes: u64,
    /// Bytes of a burst: well under the log.
    pub burst_bytes: u64,
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
        let mut stamps: Vec<u64> = (0..self.file_bytes / PAGE).collect();
        self.prepare(&file, &stamps)?;

        let mut random = fastrand::Rng::with_seed(SEED);
        let mut page = Stamped::new(PAGE);
        let mut buffer = vec![0; PAGE as usize];
        let mut next = stamps.len() as u64;
        let mut operation = |_| {
            let index = random.usize(..stamps.len());
            let at = index as u64 * PAGE;
            match self.work {
                PageWork::OverwriteAndSync => {
                    file.write_all_at(page.with(next), at).context("pwrite")?;
                    file.sync_all().context("fsync")?;
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
        let in_log = Budget { time: time / 2, operations: self.burst_bytes / PAGE };
        let mut rates = Vec::new();
        for _ in 0..BURSTS {
            std::thread::sleep(SETTLE);
            rates.push(burst(in_log, &mut operation)?.rate());
        }
        std::thread::sleep(SETTLE);
        let sustained = timed(Budget { time, operations: u64::MAX }, &mut operation)?;

        verify_blocks(&file, PAGE, stamps.len() as u64, |page| stamps[page as usize])?;
        let rate = Summary::of(rates).expect("at least one burst").median;
        Ok(Outcome::of(Figure::BurstRate, rate).with_timed(&sustained))
    }

    /// Writes the file, and reads it once, so that whatever caches there are know it.
    fn prepare(&self, file: &File, stamps: &[u64]) -> Result<(), BenchError> {
        const PAGES_PER_WRITE: usize = 256;
        let mut page = Stamped::new(PAGE);
        for (chunk, stamps) in stamps.chunks(PAGES_PER_WRITE).enumerate() {
            let bytes: Vec<u8> = stamps.iter().flat_map(|&stamp| page.with(stamp).to_vec()).collect();
            let at = (chunk * PAGES_PER_WRITE) as u64 * PAGE;
            file.write_all_at(&bytes, at).context("filling the file of pages")?;
        }
        file.sync_all().context("fsync of the file of pages")?;
        std::thread::sleep(SETTLE);
        verify_blocks(file, PAGE, stamps.len() as u64, |page| stamps[page as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Pages = Pages { work: PageWork::Read, file_bytes: 16 * PAGE, burst_bytes: 8 * PAGE };

    #[test]
    fn overwritten_pages_hold_the_last_number_written() {
        let dir = tempfile::tempdir().unwrap();
        let pages = Pages { work: PageWork::OverwriteAndSync, ..SMALL };
        pages.run(dir.path(), Duration::from_millis(20)).unwrap();
        let bytes = std::fs::read(dir.path().join("pages")).unwrap();
        assert_eq!(bytes.len() as u64, SMALL.file_bytes);
        let numbers: std::collections::BTreeSet<_> =
            bytes.chunks(PAGE as usize).map(|page| page[..8].to_vec()).collect();
        assert_eq!(numbers.len(), 16, "no two pages hold the same number");
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
