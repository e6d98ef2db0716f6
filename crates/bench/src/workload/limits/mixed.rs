//! A server that goes on and on: half of its calls read pages at random, the rest append to a log and fsync, overwrite pages and
//! fsync, and make, rename and remove files; so many a second, and no faster.
//!
//! Each operation has its time to begin. How long it takes counts from when it began; how late its answer comes, from when it was to
//! begin: one that waits makes those behind it late.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome, Timed, latency_histogram};
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

const SEED: u64 = 0x3135;
const PAGE: u64 = 4096;
/// Appends have this many bytes, or twice as many, and so on up to a page.
const RECORD_BYTES_MIN: usize = 128;
const RECORD_DOUBLINGS: usize = 6;
/// A log that has this many bytes is cut to none and begun again.
const LOG_BYTES_MAX: u64 = 32 << 20;
/// Files that were made and not removed.
const LIVE_FILES: u64 = 64;

/// How many reads and writes come in a hundred operations; the rest are names.
const READS: u32 = 50;
const APPENDS: u32 = 30;
const OVERWRITES: u32 = 15;

/// The load.
#[derive(Clone, Copy, Debug)]
pub struct Mixed {
    /// Operations a second.
    pub pace: u64,
    /// The file that is read and overwritten.
    pub file_bytes: u64,
}

impl Mixed {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let mut server = Server::new(dir, self.file_bytes / PAGE)?;
        // A part of it is over before anything is measured: memory is there, and digests have begun.
        self.serve(&mut server, time / 4)?;
        let (took, late) = self.serve(&mut server, time)?;
        server.verify()?;
        let microseconds = |quantile| took.latency.value_at_quantile(quantile) as f64 / 1e3;
        Ok(Outcome::default()
            .with_timed(&took)
            .with(Figure::Median, microseconds(0.5))
            .with(Figure::Percentile99, microseconds(0.99))
            .with(Figure::Percentile999, microseconds(0.999))
            .with(Figure::Late999, late as f64 / 1e3))
    }

    /// What operations took, and how many ns late the answers of 999 of 1,000 came at most.
    fn serve(&self, server: &mut Server, time: Duration) -> Result<(Timed, u64), BenchError> {
        let (mut latency, mut late) = (latency_histogram(), latency_histogram());
        let record = |histogram: &mut hdrhistogram::Histogram<u64>, time: Duration| {
            histogram.saturating_record((time.as_nanos() as u64).max(1));
        };
        let start = Instant::now();
        let mut now = start;
        let mut operations = 0;
        while now - start < time {
            let due = start + Duration::from_nanos(operations * 1_000_000_000 / self.pace);
            while now < due {
                std::hint::spin_loop();
                now = Instant::now();
            }
            server.step()?;
            let end = Instant::now();
            record(&mut latency, end - now);
            record(&mut late, end - due);
            operations += 1;
            now = end;
        }
        Ok((Timed { operations, elapsed: now - start, latency }, late.value_at_quantile(0.999)))
    }
}

/// The files, and what is known of them.
struct Server {
    random: fastrand::Rng,
    pages: File,
    stamps: Vec<u64>,
    page: Stamped,
    buffer: Vec<u8>,
    log: File,
    log_bytes: u64,
    record: Vec<u8>,
    dir: PathBuf,
    names: u64,
    next: u64,
}

impl Server {
    fn new(dir: &Path, pages: u64) -> Result<Server, BenchError> {
        let file = File::options().read(true).write(true).create_new(true).open(dir.join("pages"));
        let file = file.context("making the file of pages")?;
        let stamps: Vec<u64> = (0..pages).collect();
        let mut page = Stamped::new(PAGE);
        for &stamp in &stamps {
            file.write_all_at(page.with(stamp), stamp * PAGE).context("filling the file of pages")?;
        }
        let log = File::options().append(true).create_new(true).open(dir.join("log"));
        Ok(Server {
            random: fastrand::Rng::with_seed(SEED),
            pages: file,
            stamps,
            page,
            buffer: vec![0; PAGE as usize],
            log: log.context("making the log")?,
            log_bytes: 0,
            record: vec![b'r'; RECORD_BYTES_MIN << (RECORD_DOUBLINGS - 1)],
            dir: dir.to_owned(),
            names: 0,
            next: pages,
        })
    }

    fn step(&mut self) -> Result<(), BenchError> {
        let kind = self.random.u32(..100);
        if kind < READS {
            self.read()
        } else if kind < READS + APPENDS {
            self.append()
        } else if kind < READS + APPENDS + OVERWRITES {
            self.overwrite()
        } else {
            self.name()
        }
    }

    fn read(&mut self) -> Result<(), BenchError> {
        let index = self.random.usize(..self.stamps.len());
        self.pages.read_exact_at(&mut self.buffer, index as u64 * PAGE).context("pread")?;
        if self.buffer[..8] == self.stamps[index].to_le_bytes() {
            return Ok(());
        }
        Err(BenchError::Corrupt(format!("page {index} holds another number")))
    }

    fn append(&mut self) -> Result<(), BenchError> {
        if self.log_bytes >= LOG_BYTES_MAX {
            self.log.set_len(0).context("ftruncate")?;
            self.log_bytes = 0;
        }
        let bytes = RECORD_BYTES_MIN << self.random.usize(..RECORD_DOUBLINGS);
        self.log.write_all(&self.record[..bytes]).context("append")?;
        self.log_bytes += bytes as u64;
        self.log.sync_all().context("fsync")
    }

    fn overwrite(&mut self) -> Result<(), BenchError> {
        let index = self.random.usize(..self.stamps.len());
        self.pages.write_all_at(self.page.with(self.next), index as u64 * PAGE).context("pwrite")?;
        self.stamps[index] = self.next;
        self.next += 1;
        self.pages.sync_all().context("fsync")
    }

    /// Makes a file, gives it its name, or removes the oldest one.
    fn name(&mut self) -> Result<(), BenchError> {
        let number = self.names / 3;
        let (new, name) = (self.dir.join("new"), |number: u64| self.dir.join(format!("name-{number}")));
        let step = self.names % 3;
        self.names += 1;
        match step {
            0 => File::create_new(new).map(drop).context("create"),
            1 => std::fs::rename(new, name(number)).context("rename"),
            _ if number < LIVE_FILES => Ok(()),
            _ => std::fs::remove_file(name(number - LIVE_FILES)).context("unlink"),
        }
    }

    fn verify(&self) -> Result<(), BenchError> {
        verify_blocks(&self.pages, PAGE, self.stamps.len() as u64, |page| self.stamps[page as usize])?;
        let length = std::fs::metadata(self.dir.join("log")).context("stat of the log")?.len();
        if length == self.log_bytes {
            return Ok(());
        }
        Err(BenchError::Corrupt(format!("a log of {length} bytes instead of {}", self.log_bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_kept_and_everything_is_where_it_was_put() {
        let dir = tempfile::tempdir().unwrap();
        let mixed = Mixed { pace: 20_000, file_bytes: 16 * PAGE };
        let outcome = mixed.run(dir.path(), Duration::from_millis(200)).unwrap();
        assert!(outcome.figures[&Figure::Rate] <= 20_001.0 + 1e3, "{outcome:?}");
        let ordered =
            [Figure::Median, Figure::Percentile99, Figure::Percentile999].map(|f| outcome.figures[&f]);
        assert!(ordered.is_sorted() && ordered[2] <= outcome.figures[&Figure::LongestStall] * 1e3 + 1.0);
    }
}
