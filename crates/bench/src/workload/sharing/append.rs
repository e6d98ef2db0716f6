//! Processes that append records to one file: a log that all of them write.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use super::clock::{CallClock, timed_in_each};
use super::warm_up::operations;
use crate::error::{BenchError, Context};
use crate::figures::measure::Outcome;
use crate::workload::pieces::stamp::Stamped;

/// A record says in the upper bits of its number which process wrote it.
const PROCESS_SHIFT: u32 = 48;

/// Appends.
#[derive(Clone, Copy, Debug)]
pub struct Append {
    /// How many processes append.
    pub processes: u32,
    /// Bytes of a record.
    pub size: u64,
    /// An fdatasync follows each.
    pub syncs: bool,
}

impl Append {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Vec<Outcome>, BenchError> {
        let log = Log { path: &dir.join("shared"), size: self.size };
        log.make()?;
        let outcomes = timed_in_each(self.processes, time, |number| {
            let (mut file, mut record) = log.open()?;
            Ok(move |n, clock: &mut CallClock| {
                let written = file.write_all(record.with(stamp(number, n)));
                clock.returned(written).context("append")?;
                if self.syncs {
                    clock.returned(file.sync_data()).context("fdatasync")?;
                }
                Ok(())
            })
        })?;
        log.verify(&outcomes)?;
        Ok(outcomes)
    }
}

/// Requests for a page: it is opened, looked at, read and closed, and a line is appended to the log that all workers have open.
#[derive(Clone, Copy, Debug)]
pub struct AccessLog {
    /// How many processes serve requests.
    pub workers: u32,
    /// Bytes of the page.
    pub page: u64,
    /// Bytes of a line.
    pub line: u64,
}

impl AccessLog {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Vec<Outcome>, BenchError> {
        let page = dir.join("page");
        std::fs::write(&page, vec![b'p'; self.page as usize]).context("making the page")?;
        let log = Log { path: &dir.join("access.log"), size: self.line };
        log.make()?;
        let outcomes = timed_in_each(self.workers, time, |number| {
            let (mut file, mut line) = log.open()?;
            let (page, mut content) = (&page, vec![0; self.page as usize]);
            Ok(move |n, clock: &mut CallClock| {
                let served = clock.returned(File::open(page)).context("opening the page")?;
                let length = clock.returned(served.metadata()).context("stat of the page")?.len();
                let content = &mut content[..length as usize];
                clock.returned(served.read_exact_at(content, 0)).context("reading the page")?;
                clock.returned(file.write_all(line.with(stamp(number, n)))).context("append")?;
                drop(served);
                clock.returned(());
                Ok(())
            })
        })?;
        log.verify(&outcomes)?;
        Ok(outcomes)
    }
}

fn stamp(number: u32, n: u64) -> u64 {
    u64::from(number) << PROCESS_SHIFT | n
}

/// The file that all append to.
struct Log<'a> {
    path: &'a Path,
    size: u64,
}

impl Log<'_> {
    fn make(&self) -> Result<(), BenchError> {
        File::create_new(self.path).and_then(|file| file.sync_all()).context("making the log")
    }

    /// The log, and a record to append to it.
    fn open(&self) -> Result<(File, Stamped), BenchError> {
        let file = File::options().append(true).open(self.path).context("opening the log")?;
        Ok((file, Stamped::new(self.size)))
    }

    /// Checks that every record of every process is there once and whole, those of each in order.
    fn verify(&self, outcomes: &[Outcome]) -> Result<(), BenchError> {
        let mut next = vec![0; outcomes.len()];
        let file = File::open(self.path).context("opening to read back")?;
        let records = file.metadata().context("stat before reading back")?.len().div_ceil(self.size);
        let mut file = BufReader::with_capacity(1 << 20, file);
        let (mut found, mut wanted) = (vec![0; self.size as usize], Stamped::new(self.size));
        for place in 0..records {
            file.read_exact(&mut found).context("reading back")?;
            let number = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
            let process = (number >> PROCESS_SHIFT) as usize;
            let is_next = next.get(process).is_some_and(|&n| stamp(process as u32, n) == number);
            if !is_next || found != wanted.with(number) {
                return Err(BenchError::Corrupt(format!("record {place} is not the next of any process")));
            }
            next[process] += 1;
        }
        let done: Vec<u64> = outcomes.iter().map(operations).collect();
        if next == done {
            return Ok(());
        }
        Err(BenchError::Corrupt(format!("{next:?} records of each process instead of {done:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_there_and_one_that_is_not_whole_is_seen() {
        for syncs in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let append = Append { processes: 3, size: 100, syncs };
            let outcomes = append.run(dir.path(), Duration::from_millis(10)).unwrap();
            let path = dir.path().join("shared");
            let log = Log { path: &path, size: 100 };
            log.verify(&outcomes).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(&[0xff], 199).unwrap();
            assert!(matches!(log.verify(&outcomes), Err(BenchError::Corrupt(_))));
            file.set_len(100).unwrap();
            assert!(matches!(log.verify(&outcomes), Err(BenchError::Corrupt(_))), "lost records");
        }
    }

    #[test]
    fn workers_serve_the_page_and_log_each_request() {
        let dir = tempfile::tempdir().unwrap();
        let log = AccessLog { workers: 2, page: 1000, line: 180 };
        let outcomes = log.run(dir.path(), Duration::from_millis(10)).unwrap();
        let logged = std::fs::metadata(dir.path().join("access.log")).unwrap().len();
        assert_eq!(logged, 180 * outcomes.iter().map(operations).sum::<u64>());
    }
}
