//! Runs the program of a work.

use crate::error::{BenchError, Context};
use crate::figures::measure::Outcome;
use crate::processes::daemon::Daemon;
use crate::works::program::Program;
use crate::works::work::Work;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What programs can tell besides of the peer that they run on.
#[derive(Debug, Default)]
pub struct Beside {
    /// The counters of the disk that it lies on.
    pub disk: Option<PathBuf>,
    /// The process that serves it.
    pub daemon: Option<Daemon>,
}

/// Runs the program of `work` in `dir`, which is made for it and removed behind it.
pub fn run(work: &Work, dir: &Path, time: Duration, beside: &Beside) -> Result<Outcome, BenchError> {
    match work.program {
        Program::Append(append) => within(dir, || append.run(dir, time)),
        Program::Threads(threads) => within(dir, || threads.run(dir, time)),
        Program::Pages(pages) => within(dir, || pages.run(dir, time)),
        Program::Sqlite(sqlite) => within(dir, || sqlite.run(dir, time, beside.disk.as_deref())),
        Program::Create(create) => within(dir, || create.run(dir, time)),
        Program::OneDirectory(together) => within(dir, || together.run(dir, time)),
        Program::OwnDirectories(apart) => within(dir, || apart.run(dir, time)),
        Program::HandOver(hand_over) => within(dir, || hand_over.run(dir, time)),
        Program::Limit(limit) => within(dir, || limit.run(dir, time)),
        Program::Mixed(mixed) => within(dir, || mixed.run(dir, time)),
        Program::Digest(digest) => within(dir, || digest.run(dir, time)),
        Program::Stream(stream) => within(dir, || stream.run(dir, time)),
        Program::Foreign(foreign) => within(dir, || foreign.run(dir)),
        Program::Calls(calls) => within(dir, || calls.run(dir, time)),
        Program::AtRest(rest) => within(dir, || rest.stay(dir)),
        Program::Recovery(filling) => within(dir, || filling.run_until_killed(dir)),
        Program::Shared(shared) => within(dir, || shared.run(dir, time)),
        Program::PgBench(pgbench) => within(dir, || pgbench.run(dir, time)),
        Program::ServedRename(rename) => within(dir, || rename.run(dir, time)),
        Program::Bulk(bulk) => within(dir, || bulk.run(dir, beside.daemon.as_ref())),
        Program::FirstAppends(first) => within(dir, || first.run(dir)),
        Program::LogBesideTable(beside) => within(dir, || beside.run(dir, time)),
        Program::Filebench(filebench) => within(dir, || filebench.run(dir, time)),
        Program::RocksDb(rocksdb) => within(dir, || rocksdb.run(dir, time)),
        Program::ShortPrograms(short) => within(dir, || short.run(dir)),
        Program::ParallelJob(job) => job.run(dir),
        Program::Start(start) => start.run(dir),
        Program::Job(job) => job.run(dir),
        Program::Launch { .. } => {
            Err(BenchError::Unusable(format!("{} is measured from outside only", work.name)))
        }
    }
}

fn within(dir: &Path, program: impl FnOnce() -> Result<Outcome, BenchError>) -> Result<Outcome, BenchError> {
    std::fs::create_dir_all(dir).context("making the directory")?;
    let outcome = program()?;
    std::fs::remove_dir_all(dir).context("removing the directory")?;
    Ok(outcome)
}
