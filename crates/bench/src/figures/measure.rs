//! Clocks and figures: how a workload measures itself, and what it hands to the runner.
//!
//! Rates are taken without a clock call per operation (`burst`), because two clock calls cost a good part of
//! the fastest operations measured here; latencies and stalls are taken with one clock call per operation
//! (`timed`), the end of one being the start of the next.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// A quantity a workload can report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Operations per second over the whole run.
    Rate,
    /// Operations per second in bursts that fit the operation log.
    BurstRate,
    /// Megabytes (10^6 bytes) per second.
    Bandwidth,
    /// The same until the last write of a file returned,
    WrittenBandwidth,
    /// and until one fsync behind it did.
    SyncedBandwidth,
    /// The program's processor time for each GiB that it writes, in ms,
    ProgramTime,
    /// the daemon's,
    DaemonTime,
    /// and that of a bare copy.
    CopyTime,
    /// How many bare copies the program and the daemon together cost.
    ToCopies,
    /// Predictions of whether a program waits for a write that were right, of 100,
    SynchronicityRight,
    /// how many were right,
    SynchronicityHits,
    /// and how many were wrong.
    SynchronicityMisses,
    /// Predictions that writes to a range stay large that were right, of 100,
    SizesRight,
    /// how many were right,
    SizesHits,
    /// and how many were wrong.
    SizesMisses,
    /// The longest time one operation took, in ms.
    LongestStall,
    /// What half of the operations took no longer than, in µs.
    Median,
    /// What 99 of 100 operations took no longer than, in µs.
    Percentile99,
    /// What 999 of 1,000 operations took no longer than, in µs.
    Percentile999,
    /// How long after its time to begin the answer of 999 of 1,000 operations came at most, in µs.
    Late999,
    /// The longest time any single call took, in ms; of several rounds the worst counts.
    LongestWait,
    /// Operations per second of four at once,
    FourRate,
    /// what 99 of 100 of them took no longer than, in µs,
    FourPercentile99,
    /// and what the longest took, in ms.
    FourLongestWait,
    /// The same of eight.
    EightRate,
    /// See `FourPercentile99`.
    EightPercentile99,
    /// See `FourLongestWait`.
    EightLongestWait,
    /// Renaming a file by SharedFS while the other processor is idle, in µs,
    RenameBesideIdle,
    /// and while it is busy.
    RenameBesideBusy,
    /// How many times as long a call takes as a bare copy of its bytes.
    ToBareCopy,
    /// One call, in ns.
    OneCall,
    /// One bare copy of its bytes, in ns.
    BareCopy,
    /// How many times as much two processes or threads do together as one does.
    Two,
    /// The same of four.
    Four,
    /// The same of eight.
    Eight,
    /// One `pread` through the libc symbol, in ns.
    PreadCall,
    /// One `fstat` through the libc symbol, in ns.
    FstatCall,
    /// One one-byte `write` to /dev/null through the libc symbol, in ns.
    WriteCall,
    /// One `pread` through `syscall(2)`, in ns.
    SyscallCall,
    /// One read that stdio makes inside libc, in ns.
    StdioCall,
    /// One start and end of a program, in ms.
    Start,
    /// A whole job, in ms.
    Elapsed,
    /// From starting the daemon to its first answer, in seconds.
    Recovery,
    /// The daemon's part of one processor's time, in percent.
    Processor,
    /// How often a thread of the daemon wakes up in a second.
    WakeUps,
    /// The daemon's memory, in MiB.
    Memory,
    /// Files of the store that the daemon has mapped and that lie in memory, in MiB.
    MappedStorage,
    /// A stat of a file that was looked at a moment ago, in µs.
    StatAgain,
    /// A stat that what is kept does not do for, in µs.
    StatAnew,
    /// Looking for a name that is not there and was never looked for, in µs.
    LookForNone,
    /// A read of a page that was read a moment ago, in µs.
    ReadAgain,
    /// A read of a page past the cache, in µs.
    ReadAnew,
    /// Opening and closing a file, in µs.
    OpenClose,
    /// Writing over a page of a file, in µs.
    WritePage,
    /// Appending a page to a file, in µs.
    AppendPage,
    /// Writing over a page of a file, and fsync, in µs.
    WriteSync,
    /// Making a file longer or shorter by a page, in µs.
    Cut,
    /// A change of a file's mode, in µs.
    ChangeMode,
    /// Making an empty file and removing it, in µs.
    MakeRemove,
    /// Making an empty directory and removing it, in µs.
    MakeRemoveDirectory,
    /// Renaming a file, in µs.
    Rename,
    /// Giving a file a second name and removing that, in µs.
    LinkRemove,
    /// Reading a directory of 100 names, in µs.
    List,
    /// Operations per second that fio reports for the same pattern.
    FioRate,
    /// Writes that the disk is asked for by each operation.
    DiskWrites,
    /// Flushes that the disk is asked for by each operation.
    DiskFlushes,
}

impl Figure {
    /// The unit the value is in.
    pub fn unit(self) -> &'static str {
        match self {
            Figure::Rate | Figure::BurstRate | Figure::FioRate | Figure::FourRate | Figure::EightRate => {
                "op/s"
            }
            Figure::Bandwidth | Figure::WrittenBandwidth | Figure::SyncedBandwidth => "MB/s",
            Figure::ProgramTime | Figure::DaemonTime | Figure::CopyTime => "ms/GiB",
            Figure::SynchronicityHits
            | Figure::SynchronicityMisses
            | Figure::SizesHits
            | Figure::SizesMisses => "",
            Figure::LongestStall
            | Figure::LongestWait
            | Figure::FourLongestWait
            | Figure::EightLongestWait
            | Figure::Start
            | Figure::Elapsed => "ms",
            Figure::OneCall
            | Figure::BareCopy
            | Figure::PreadCall
            | Figure::FstatCall
            | Figure::WriteCall
            | Figure::SyscallCall
            | Figure::StdioCall => "ns",
            Figure::Median
            | Figure::Percentile99
            | Figure::Percentile999
            | Figure::Late999
            | Figure::FourPercentile99
            | Figure::EightPercentile99
            | Figure::RenameBesideIdle
            | Figure::RenameBesideBusy
            | Figure::StatAgain
            | Figure::StatAnew
            | Figure::LookForNone
            | Figure::ReadAgain
            | Figure::ReadAnew
            | Figure::OpenClose
            | Figure::WritePage
            | Figure::AppendPage
            | Figure::WriteSync
            | Figure::Cut
            | Figure::ChangeMode
            | Figure::MakeRemove
            | Figure::MakeRemoveDirectory
            | Figure::Rename
            | Figure::LinkRemove
            | Figure::List => "µs",
            Figure::Two | Figure::Four | Figure::Eight | Figure::ToBareCopy | Figure::ToCopies => "×",
            Figure::Recovery => "s",
            Figure::Processor | Figure::SynchronicityRight | Figure::SizesRight => "%",
            Figure::WakeUps => "/s",
            Figure::DiskWrites | Figure::DiskFlushes => "/op",
            Figure::Memory | Figure::MappedStorage => "MiB",
        }
    }

    /// Whether the worst of all rounds counts, not the one in the middle: it is about what must not happen once.
    pub fn is_of_the_worst_round(self) -> bool {
        matches!(self, Figure::LongestWait | Figure::FourLongestWait | Figure::EightLongestWait)
    }
}

/// The outcome of one run of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The figures it reports.
    pub figures: BTreeMap<Figure, f64>,
    /// Latencies as (nanoseconds, count), if operations were timed one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<(u64, u64)>,
}

impl Outcome {
    /// An outcome of one figure.
    pub fn of(figure: Figure, value: f64) -> Self {
        Outcome::default().with(figure, value)
    }

    /// The same outcome with one figure more.
    pub fn with(mut self, figure: Figure, value: f64) -> Self {
        self.figures.insert(figure, value);
        self
    }

    /// The same outcome with what `timed` measured.
    pub fn with_timed(mut self, timed: &Timed) -> Self {
        self.latency =
            timed.latency.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
        self.with(Figure::Rate, timed.rate()).with(Figure::LongestStall, timed.longest_stall_ms())
    }
}

/// A histogram of nanoseconds that never refuses a value: 1 ns … 1 h, three significant digits.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("constant bounds are valid")
}

/// How long a phase may go on: it ends with whichever limit is reached first.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Limit of time.
    pub time: Duration,
    /// Limit of operations.
    pub operations: u64,
}

/// Result of a phase timed as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// Operations made.
    pub operations: u64,
    /// How long all of them took.
    pub elapsed: Duration,
}

impl Burst {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        per_second(self.operations, self.elapsed)
    }
}

/// Result of a phase timed operation by operation.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Operations made.
    pub operations: u64,
    /// How long all of them took.
    pub elapsed: Duration,
    /// Nanoseconds of each.
    pub latency: Histogram<u64>,
}

impl Timed {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        per_second(self.operations, self.elapsed)
    }

    /// The longest operation, in ms.
    pub fn longest_stall_ms(&self) -> f64 {
        self.latency.max() as f64 / 1e6
    }
}

fn per_second(operations: u64, elapsed: Duration) -> f64 {
    operations as f64 / elapsed.as_secs_f64().max(1e-9)
}

const OPERATIONS_PER_CLOCK_LOOK: u64 = 16;

/// Runs `operation(n)`, n = 0, 1, …, looking at the clock only now and then.
pub fn burst(
    budget: Budget,
    mut operation: impl FnMut(u64) -> Result<(), BenchError>,
) -> Result<Burst, BenchError> {
    let start = Instant::now();
    let mut operations = 0;
    while operations < budget.operations {
        operation(operations)?;
        operations += 1;
        if operations.is_multiple_of(OPERATIONS_PER_CLOCK_LOOK) && start.elapsed() >= budget.time {
            break;
        }
    }
    Ok(Burst { operations, elapsed: start.elapsed() })
}

/// Runs `operation(n)`, n = 0, 1, …, and records how long each took.
pub fn timed(
    budget: Budget,
    mut operation: impl FnMut(u64) -> Result<(), BenchError>,
) -> Result<Timed, BenchError> {
    let mut latency = latency_histogram();
    let start = Instant::now();
    let mut last = start;
    let mut operations = 0;
    while operations < budget.operations && last - start < budget.time {
        operation(operations)?;
        operations += 1;
        let now = Instant::now();
        latency.saturating_record(((now - last).as_nanos() as u64).max(1));
        last = now;
    }
    Ok(Timed { operations, elapsed: last - start, latency })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn phases_make_exactly_the_operations_they_are_given() {
        let mut seen = Vec::new();
        let budget = Budget { time: HOUR, operations: 37 };
        let whole = burst(budget, |n| {
            seen.push(n);
            Ok(())
        })
        .unwrap();
        assert_eq!(whole.operations, 37);
        assert_eq!(seen, (0..37).collect::<Vec<_>>());

        let each = timed(budget, |_| Ok(())).unwrap();
        assert_eq!(each.operations, 37);
        assert_eq!(each.latency.len(), 37);
    }

    #[test]
    fn a_failing_operation_ends_the_phase() {
        let budget = Budget { time: HOUR, operations: 10 };
        let ended = timed(budget, |n| if n == 3 { Err(BenchError::Interrupted) } else { Ok(()) });
        assert!(matches!(ended, Err(BenchError::Interrupted)));
    }

    #[test]
    fn an_outcome_survives_the_pipe() {
        let mut latency = latency_histogram();
        latency.record(1234).unwrap();
        latency.record(1234).unwrap();
        let timed = Timed { operations: 2, elapsed: Duration::from_secs(1), latency };
        let outcome = Outcome::of(Figure::BurstRate, 12.5).with_timed(&timed);
        let line = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&line).unwrap(), outcome);
        assert_eq!(outcome.latency, vec![(1234, 2)]);
        assert_eq!(outcome.figures[&Figure::Rate], 2.0);
    }
}
