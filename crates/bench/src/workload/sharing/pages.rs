//! Processes that overwrite pages of one file, each its own, and others that read them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use super::clock::{CallClock, timed_in_each};
use super::warm_up::operations;
use crate::error::{BenchError, Context};
use crate::figures::measure::Outcome;
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

/// A page says in the upper bits of its number which process wrote it, from 1; the parent, which fills the file, is 0.
const PROCESS_SHIFT: u32 = 48;
/// The file is filled by writes of so much.
const FILLED_AT_ONCE: u64 = 1 << 20;

/// Writers and readers of one file.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// How many processes write; page p belongs to writer p modulo their number.
    pub writers: u32,
    /// How many processes read.
    pub readers: u32,
    /// Bytes of a page.
    pub size: u64,
    /// Bytes that are read of a page.
    pub read_size: u64,
    /// The size of the file: whole pages.
    pub file_bytes: u64,
    /// An fdatasync follows each write.
    pub syncs: bool,
}

impl Pages {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Vec<Outcome>, BenchError> {
        let path = dir.join("shared");
        self.fill(&path)?;
        let outcomes = timed_in_each(self.writers + self.readers, time, |number| {
            let file = File::options().read(true).write(true).open(&path).context("opening the file")?;
            let mut pages = self.pages_of(number);
            let (mut page, mut found) = (Stamped::new(self.size), vec![0; self.read_size as usize]);
            Ok(move |n, clock: &mut CallClock| {
                let at = pages() * self.size;
                if number >= self.writers {
                    return clock.returned(file.read_exact_at(&mut found, at)).context("pread");
                }
                clock.returned(file.write_all_at(page.with(stamp(number, n)), at)).context("pwrite")?;
                if self.syncs {
                    clock.returned(file.sync_data()).context("fdatasync")?;
                }
                Ok(())
            })
        })?;
        self.verify(&path, &outcomes)?;
        Ok(outcomes)
    }

    /// The pages that a process touches, in their order: the same each time, so that they can be gone through again.
    fn pages_of(&self, number: u32) -> impl FnMut() -> u64 + use<> {
        let mut random = fastrand::Rng::with_seed(u64::from(number) + 1);
        let pages = self.file_bytes / self.size;
        let (writers, is_reader) = (u64::from(self.writers), number >= self.writers);
        move || {
            if is_reader {
                return random.u64(..pages);
            }
            random.u64(..pages / writers) * writers + u64::from(number)
        }
    }

    fn fill(&self, path: &Path) -> Result<(), BenchError> {
        let file = File::create_new(path).context("making the file of pages")?;
        let pages_per_write = FILLED_AT_ONCE / self.size;
        let mut page = Stamped::new(self.size);
        for first in (0..self.file_bytes / self.size).step_by(pages_per_write as usize) {
            let bytes: Vec<u8> =
                (first..first + pages_per_write).flat_map(|n| page.with(n).to_vec()).collect();
            file.write_all_at(&bytes, first * self.size).context("filling the file of pages")?;
        }
        file.sync_all().context("fsync of the file of pages")
    }

    /// Checks that each page holds the stamp of its last write.
    fn verify(&self, path: &Path, outcomes: &[Outcome]) -> Result<(), BenchError> {
        let mut stamps: Vec<u64> = (0..self.file_bytes / self.size).collect();
        for (number, outcome) in (0..self.writers).zip(outcomes) {
            let mut pages = self.pages_of(number);
            for n in 0..operations(outcome) {
                stamps[pages() as usize] = stamp(number, n);
            }
        }
        let file = File::open(path).context("opening to read back")?;
        verify_blocks(&file, self.size, stamps.len() as u64, |page| stamps[page as usize])
    }
}

fn stamp(number: u32, n: u64) -> u64 {
    u64::from(number + 1) << PROCESS_SHIFT | n
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Pages =
        Pages { writers: 3, readers: 0, size: 8192, read_size: 4096, file_bytes: 1 << 20, syncs: false };

    #[test]
    fn the_last_write_of_each_page_is_kept_and_a_lost_one_is_seen() {
        for pages in [SMALL, Pages { syncs: true, ..SMALL }, Pages { writers: 1, readers: 2, ..SMALL }] {
            let dir = tempfile::tempdir().unwrap();
            let outcomes = pages.run(dir.path(), Duration::from_millis(10)).unwrap();
            let path = dir.path().join("shared");
            let mut old = Stamped::new(8192);
            let first = pages.pages_of(0)();
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(old.with(first), first * 8192).unwrap();
            assert!(matches!(pages.verify(&path, &outcomes), Err(BenchError::Corrupt(_))));
        }
    }
}
