//! How far a call is from what the hardware does: a few calls, then as many bare copies of the same bytes from, or to, the
//! same place in the program ([`super::bare`]), and so on.
//!
//! Turns are short, a fraction of a millisecond: both kinds meet the same machine, with a digest beside them or without, and one
//! in which another process had the processor is far from the median. After as many bytes as a log takes it has time to drain.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Budget, Burst, Figure, Outcome, burst};
use crate::figures::stats::Summary;
use crate::workload::limits::bare::Bare;
use crate::workload::pieces::pauses::SETTLE;
use crate::workload::pieces::stamp::{Stamped, verify_blocks};

const SEED: u64 = 0x11417;
/// A turn is of so many bytes,
const TURN_BYTES: u64 = 64 << 10;
/// and not of fewer calls.
const TURN_MIN: u64 = 4;
/// The file to read is filled by writes of so much.
const FILLED_AT_ONCE: u64 = 1 << 20;

/// The call that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitWork {
    /// An append and an fsync with a copy past the caches and a fence.
    AppendAndSync,
    /// A read, hot and at random, with `memcpy`.
    Read,
}

/// A comparison at one size.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// What.
    pub work: LimitWork,
    /// Bytes of a call.
    pub size: u64,
    /// Bytes of the file in memory that is copied into, as long as a log, or read from.
    pub file_bytes: u64,
    /// Bytes of calls before the log has time to drain: well under what it holds.
    pub burst_bytes: u64,
    /// How often that.
    pub bursts: u32,
}

impl Limit {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let path = dir.join("limit");
        let file = File::options().read(true).append(true).create_new(true).open(&path);
        let file = file.context("making the file")?;
        let bare = Bare::new(self.file_bytes as usize)?;
        match self.work {
            LimitWork::AppendAndSync => self.append(&file, bare, time),
            LimitWork::Read => self.read(&file, &bare, time),
        }
    }

    fn append(&self, mut file: &File, mut bare: Bare, time: Duration) -> Result<Outcome, BenchError> {
        use std::io::Write as _;

        let mut record = Stamped::new(self.size);
        let mut next = 0;
        let mut append = |record: &mut Stamped| {
            file.write_all(record.with(next)).context("append")?;
            file.sync_all().context("fsync")?;
            next += 1;
            Ok(())
        };
        let mut copied = 0;
        let mut copy = |record: &mut Stamped| {
            bare.append(record.with(copied));
            copied += 1;
            Ok(())
        };
        let outcome = self.in_turns(time, &mut record, &mut append, &mut copy)?;
        verify_blocks(file, self.size, next, |n| n)?;
        Ok(outcome)
    }

    fn read(&self, file: &File, bare: &Bare, time: Duration) -> Result<Outcome, BenchError> {
        self.prepare(file)?;
        let places = self.file_bytes / self.size;
        let mut buffer = vec![0; self.size as usize];
        // Both go through the file in the same order.
        let (mut random, mut random_bare) = (fastrand::Rng::with_seed(SEED), fastrand::Rng::with_seed(SEED));
        let mut read = |buffer: &mut Vec<u8>| {
            file.read_exact_at(buffer, random.u64(..places) * self.size).context("pread")?;
            black_box(buffer);
            Ok(())
        };
        let mut copy = |buffer: &mut Vec<u8>| {
            bare.read((random_bare.u64(..places) * self.size) as usize, buffer);
            black_box(buffer);
            Ok(())
        };
        let outcome = self.in_turns(time, &mut buffer, &mut read, &mut copy)?;
        verify_blocks(file, self.size, places, |n| n)?;
        Ok(outcome)
    }

    /// Writes the file, and reads it once, so that whatever caches there are know it.
    fn prepare(&self, mut file: &File) -> Result<(), BenchError> {
        use std::io::Write as _;

        let places_at_once = (FILLED_AT_ONCE / self.size).max(1);
        let places = self.file_bytes / self.size;
        let mut block = Stamped::new(self.size);
        for first in (0..places).step_by(places_at_once as usize) {
            let stamps = first..places.min(first + places_at_once);
            let bytes: Vec<u8> = stamps.flat_map(|stamp| block.with(stamp).to_vec()).collect();
            file.write_all(&bytes).context("filling the file")?;
        }
        file.sync_all().context("fsync of the file")?;
        std::thread::sleep(SETTLE);
        verify_blocks(file, self.size, places, |n| n)
    }

    /// `copy` and `call` in turns: what half of the turns take for each, and that of `call` to that of `copy`.
    fn in_turns<M>(
        &self,
        time: Duration,
        memory: &mut M,
        call: &mut impl FnMut(&mut M) -> Result<(), BenchError>,
        copy: &mut impl FnMut(&mut M) -> Result<(), BenchError>,
    ) -> Result<Outcome, BenchError> {
        let turn = Budget { time: Duration::MAX, operations: (TURN_BYTES / self.size).max(TURN_MIN) };
        let turns = self.burst_bytes.div_ceil(turn.operations * self.size);
        let (mut calls, mut copies) = (Vec::new(), Vec::new());
        for _ in 0..self.bursts {
            std::thread::sleep(SETTLE);
            let start = Instant::now();
            burst(turn, |_| copy(memory))?;
            burst(turn, |_| call(memory))?;
            for _ in 0..turns {
                copies.push(nanoseconds(burst(turn, |_| copy(memory))?));
                calls.push(nanoseconds(burst(turn, |_| call(memory))?));
                if start.elapsed() >= time {
                    break;
                }
            }
        }
        let median = |each| Summary::of(each).expect("a work has bursts").median;
        let (call, copy) = (median(calls), median(copies));
        Ok(Outcome::of(Figure::ToBareCopy, call / copy)
            .with(Figure::OneCall, call)
            .with(Figure::BareCopy, copy))
    }
}

fn nanoseconds(burst: Burst) -> f64 {
    1e9 / burst.rate()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_compared_with_copies_and_leave_what_was_there() {
        for work in [LimitWork::AppendAndSync, LimitWork::Read] {
            let dir = tempfile::tempdir().unwrap();
            let limit = Limit { work, size: 4096, file_bytes: 2 << 20, burst_bytes: 1 << 16, bursts: 2 };
            let outcome = limit.run(dir.path(), Duration::from_secs(60)).unwrap();
            let [ratio, call, copy] =
                [Figure::ToBareCopy, Figure::OneCall, Figure::BareCopy].map(|f| outcome.figures[&f]);
            assert!(copy > 0.0 && (ratio - call / copy).abs() < 1e-9, "{outcome:?}");
            let length = std::fs::metadata(dir.path().join("limit")).unwrap().len();
            let appended = 2 * 2 * 16 * 4096;
            assert_eq!(length, if work == LimitWork::Read { 2 << 20 } else { appended });
        }
    }
}
