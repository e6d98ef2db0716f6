//! Threads that go through the steps of a Filebench personality, again and again. As with Filebench, another process than theirs
//! prepares the files.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::fileset::{FileIndex, Fileset, Sizes, write_all};
use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome, Timed, latency_histogram};
use crate::figures::units::MIB;
use crate::workload::pieces::members;

const SEED: u64 = 0x00f1_1eb0;
/// `$iosize`.
const IO_BYTES: u64 = MIB;

/// One step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Removes a file of the set.
    Delete,
    /// Makes a file, which stays open.
    Create,
    /// Opens a file, which stays open.
    Open,
    /// Appends a random number of bytes to the open file.
    Append,
    /// Writes the open file from front to back.
    WriteWhole,
    /// Reads the open file from front to back.
    Read,
    /// Syncs the open file.
    Sync,
    /// Closes the open file.
    Close,
    /// Looks at a file.
    Stat,
    /// Opens, reads and closes so many files.
    ReadPages(u32),
    /// Appends a random number of bytes to a log that all threads share.
    AppendLog,
}

/// A personality.
#[derive(Clone, Copy, Debug)]
pub struct Filebench {
    /// The steps of a thread, from the first to the last, and from the first again.
    pub steps: &'static [Step],
    /// Files of the set,
    pub files: u32,
    /// of which so many of 100 are there at the start,
    pub prepared_percent: u32,
    /// of these sizes.
    pub sizes: Sizes,
    /// The most bytes of an append.
    pub append_bytes_max: u64,
    /// Threads.
    pub threads: u32,
}

impl Filebench {
    /// Measures in `dir`: rounds of all steps.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let mut random = fastrand::Rng::with_seed(SEED);
        let files = Fileset::new(dir, self.files, self.sizes, &mut random);
        let prepared = self.files * self.prepared_percent / 100;
        members::run(1, |member| {
            member.wait_for_all()?;
            files.prepare(prepared).map(|()| Outcome::default())
        })?;
        files.note_prepared(prepared);

        let log = dir.join("log");
        let start = Instant::now();
        let all: Vec<Result<Vec<u64>, BenchError>> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..self.threads)
                .map(|number| {
                    let (files, log) = (&files, &log);
                    scope.spawn(move || self.thread(files, log, u64::from(number), start + time))
                })
                .collect();
            running.into_iter().map(|thread| thread.join().expect("a thread of a personality")).collect()
        });
        let elapsed = start.elapsed();
        let mut latency = latency_histogram();
        for nanoseconds in all.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            latency.saturating_record(nanoseconds);
        }
        self.verify(dir, &files)?;
        let percentile_99_us = latency.value_at_quantile(0.99) as f64 / 1e3;
        let whole = Timed { operations: latency.len(), elapsed, latency };
        Ok(Outcome::default().with_timed(&whole).with(Figure::Percentile99, percentile_99_us))
    }

    /// What one thread does until `end`; how long each round took, in ns.
    fn thread(&self, files: &Fileset, log: &Path, number: u64, end: Instant) -> Result<Vec<u64>, BenchError> {
        let log = self.opens_log().then(|| File::options().append(true).create(true).open(log));
        let mut thread = Thread {
            files,
            log: log.transpose().context("opening the log")?,
            random: fastrand::Rng::with_seed(SEED + number),
            buffer: vec![3; IO_BYTES as usize],
            open: None,
        };
        let mut rounds = Vec::new();
        while Instant::now() < end {
            let start = Instant::now();
            self.steps.iter().try_for_each(|&step| thread.step(step, self.append_bytes_max))?;
            rounds.push((start.elapsed().as_nanos() as u64).max(1));
        }
        Ok(rounds)
    }

    fn opens_log(&self) -> bool {
        self.steps.contains(&Step::AppendLog)
    }

    /// Checks that exactly the files are there that should be.
    fn verify(&self, dir: &Path, files: &Fileset) -> Result<(), BenchError> {
        let found = std::fs::read_dir(dir).context("listing the files of the set")?.count();
        let wanted = files.count_existing() + usize::from(self.opens_log());
        if found != wanted {
            return Err(BenchError::Corrupt(format!("{found} files instead of {wanted}")));
        }
        Ok(())
    }
}

struct Thread<'a> {
    files: &'a Fileset,
    log: Option<File>,
    random: fastrand::Rng,
    buffer: Vec<u8>,
    open: Option<(FileIndex, File)>,
}

impl Thread<'_> {
    fn step(&mut self, step: Step, append_bytes_max: u64) -> Result<(), BenchError> {
        match step {
            Step::Delete => {
                let index = self.files.take_existing(&mut self.random)?;
                std::fs::remove_file(self.files.path(index)).context("removing a file of the set")?;
                self.files.give_absent(index);
            }
            Step::Create => {
                let index = self.files.take_absent(&mut self.random)?;
                let path = self.files.path(index);
                let file = File::options().read(true).append(true).create_new(true).open(path);
                self.open = Some((index, file.context("making a file of the set")?));
            }
            Step::Open => self.open()?,
            Step::Append => {
                let bytes = self.random.u64(0..=append_bytes_max);
                let (_, file) = self.open.as_mut().expect("a personality appends to an open file");
                file.write_all(&self.buffer[..bytes as usize]).context("appending to a file of the set")?;
            }
            Step::WriteWhole => {
                let (index, file) = self.open.as_mut().expect("a personality writes an open file");
                write_all(file, self.files.bytes(*index), &self.buffer)?;
            }
            Step::Read => self.read()?,
            Step::Sync => {
                let (_, file) = self.open.as_ref().expect("a personality syncs an open file");
                file.sync_all().context("fsync of a file of the set")?;
            }
            Step::Close => self.close(),
            Step::Stat => {
                let index = self.files.take_existing(&mut self.random)?;
                std::fs::metadata(self.files.path(index)).context("looking at a file of the set")?;
                self.files.give_existing(index);
            }
            Step::ReadPages(pages) => {
                for _ in 0..pages {
                    self.open()?;
                    self.read()?;
                    self.close();
                }
            }
            Step::AppendLog => {
                let bytes = self.random.u64(0..=append_bytes_max);
                let log = self.log.as_mut().expect("a thread that appends to the log has opened it");
                log.write_all(&self.buffer[..bytes as usize]).context("appending to the log")?;
            }
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), BenchError> {
        let index = self.files.take_existing(&mut self.random)?;
        let file = File::options().read(true).append(true).open(self.files.path(index));
        self.open = Some((index, file.context("opening a file of the set")?));
        Ok(())
    }

    fn read(&mut self) -> Result<(), BenchError> {
        let (_, file) = self.open.as_mut().expect("a personality reads an open file");
        while file.read(&mut self.buffer).context("reading a file of the set")? > 0 {}
        Ok(())
    }

    fn close(&mut self) {
        if let Some((index, file)) = self.open.take() {
            drop(file);
            self.files.give_existing(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::personalities::{FILESERVER, VARMAIL, WEBPROXY, WEBSERVER};
    use super::*;

    #[test]
    fn every_personality_keeps_its_files_and_a_file_too_many_is_seen() {
        for personality in [VARMAIL, FILESERVER, WEBPROXY, WEBSERVER] {
            let dir = tempfile::tempdir().unwrap();
            let small = Filebench { files: 40, threads: 3, ..personality };
            let outcome = small.run(dir.path(), Duration::from_millis(20)).unwrap();
            assert!(outcome.figures[&Figure::Rate] > 0.0 && outcome.figures[&Figure::Percentile99] > 0.0);
            let mut random = fastrand::Rng::with_seed(1);
            let files = Fileset::new(dir.path(), 40, small.sizes, &mut random);
            assert!(matches!(small.verify(dir.path(), &files), Err(BenchError::Corrupt(_))));
        }
    }

    #[test]
    fn a_file_that_a_thread_opened_is_closed_at_the_end_of_the_round() {
        for personality in [VARMAIL, FILESERVER, WEBPROXY, WEBSERVER] {
            let opened = |step: &&Step| matches!(step, Step::Open | Step::Create);
            let opened = personality.steps.iter().filter(opened).count();
            let closed = personality.steps.iter().filter(|&&step| step == Step::Close).count();
            assert_eq!(opened, closed);
        }
    }
}
