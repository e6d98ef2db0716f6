//! Threads of one process that append and fsync, each to a file of its own: a server with several clients.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Burst, Figure, Outcome, burst};
use crate::workload::pieces::pauses::{CROWDS, SETTLE};
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

/// One thread that appends, then two, four and eight.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// Bytes of a record.
    pub size: u64,
    /// Together they append no more than so much, whatever the time.
    pub bytes_max: u64,
}

impl Threads {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let mut outcome = Outcome::default();
        let mut of_one = 0.0;
        for (threads, figure) in CROWDS {
            std::thread::sleep(SETTLE);
            let rate = self.rate(dir, threads, time)?;
            outcome = match figure {
                None => {
                    of_one = rate;
                    outcome.with(Figure::Rate, rate)
                }
                Some(figure) => outcome.with(figure, rate / of_one),
            };
        }
        Ok(outcome)
    }

    /// What so many threads do together in a second, from when the first begins until the last ends: what each of them did
    /// in its own time would add up to more than there is, where they take turns on a processor.
    fn rate(&self, dir: &Path, threads: u32, time: Duration) -> Result<f64, BenchError> {
        let start = Barrier::new(threads as usize);
        let operations = (self.bytes_max / self.size / u64::from(threads)).max(1);
        let budget = Budget { time, operations };
        let spans: Vec<Result<Span, BenchError>> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|number| {
                    let (path, start) = (dir.join(format!("{threads}-{number}")), &start);
                    scope.spawn(move || self.append(&path, budget, start))
                })
                .collect();
            running.into_iter().map(|thread| thread.join().expect("a thread that appends")).collect()
        });
        let mut all: Option<Span> = None;
        for (number, span) in spans.into_iter().enumerate() {
            let span = span?;
            let path = dir.join(format!("{threads}-{number}"));
            let written = File::open(&path).context("opening to read back")?;
            verify_blocks(&written, self.size, span.operations, |n| n)?;
            std::fs::remove_file(&path).context("removing what was appended to")?;
            all = Some(all.map_or(span, |all| all.with(span)));
        }
        Ok(all.expect("at least one thread").rate())
    }

    fn append(&self, path: &Path, budget: Budget, start: &Barrier) -> Result<Span, BenchError> {
        let opened = File::options().append(true).create_new(true).open(path);
        // A thread that cannot take part lets the others begin.
        start.wait();
        let mut file = opened.context("opening a file to append to")?;
        let mut record = Stamped::new(self.size);
        let begin = Instant::now();
        let burst = burst(budget, |n| {
            file.write_all(record.with(n)).context("append")?;
            file.sync_all().context("fsync")
        })?;
        Ok(Span { operations: burst.operations, begin, end: begin + burst.elapsed })
    }
}

/// The operations from one moment to another one.
#[derive(Clone, Copy, Debug)]
struct Span {
    operations: u64,
    begin: Instant,
    end: Instant,
}

impl Span {
    fn with(self, other: Span) -> Span {
        Span {
            operations: self.operations + other.operations,
            begin: self.begin.min(other.begin),
            end: self.end.max(other.end),
        }
    }

    fn rate(self) -> f64 {
        Burst { operations: self.operations, elapsed: self.end - self.begin }.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_threads_is_compared_with_one() {
        let dir = tempfile::tempdir().unwrap();
        let threads = Threads { size: 128, bytes_max: 128 * 64 };
        let outcome = threads.run(dir.path(), Duration::from_secs(60)).unwrap();
        let figures: Vec<Figure> = outcome.figures.into_keys().collect();
        assert_eq!(figures, [Figure::Rate, Figure::Two, Figure::Four, Figure::Eight]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn threads_that_take_turns_do_no_more_together_than_one() {
        let begin = Instant::now();
        let span = |from, to| Span {
            operations: 10,
            begin: begin + Duration::from_secs(from),
            end: begin + Duration::from_secs(to),
        };
        assert_eq!(span(0, 1).with(span(1, 2)).rate(), span(0, 1).rate());
        assert_eq!(span(0, 2).with(span(0, 2)).rate(), 10.0);
    }
}
