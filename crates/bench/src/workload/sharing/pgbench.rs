//! PostgreSQL under `pgbench -N`: processes of one server that write one log and the files of the tables.

use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::postgres::{Server, run};
use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome, latency_histogram};

/// How many clients at once, and the figures that tell of them.
const CROWDS: [(u32, [Figure; 3]); 3] = [
    (1, [Figure::Rate, Figure::Percentile99, Figure::LongestWait]),
    (4, [Figure::FourRate, Figure::FourPercentile99, Figure::FourLongestWait]),
    (8, [Figure::EightRate, Figure::EightPercentile99, Figure::EightLongestWait]),
];

/// Transactions of one client, then of four and of eight.
#[derive(Clone, Copy, Debug)]
pub struct PgBench {
    /// pgbench's scale: 100,000 accounts each.
    pub scale: u32,
}

impl PgBench {
    /// Measures in `dir`, as a user that is not root.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let server = Server::start(&dir.join("data"))?;
        let scale = self.scale.to_string();
        run(server.client("pgbench").args(["-i", "-q", "-s", &scale, server.database()]))?;
        run(server.client("psql").args(["-q", "-c", "CHECKPOINT", server.database()]))?;
        let mut outcome = Outcome::default();
        for (clients, [rate, percentile, longest]) in CROWDS {
            let transactions = transactions(&server, clients, time)?;
            let seconds = whole_seconds(time) as f64;
            outcome = outcome
                .with(rate, transactions.len() as f64 / seconds)
                .with(percentile, transactions.value_at_quantile(0.99) as f64)
                .with(longest, transactions.max() as f64 / 1e3);
        }
        Ok(outcome)
    }
}

/// pgbench goes on for whole seconds.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs_f64().ceil().max(1.0) as u64
}

/// Has so many clients commit for `time`; how long each transaction took, in µs.
fn transactions(server: &Server, clients: u32, time: Duration) -> Result<Histogram<u64>, BenchError> {
    let logs = tempfile::tempdir_in(server.outside()).context("making a folder for pgbench's log")?;
    let mut pgbench = server.client("pgbench");
    pgbench.args(["-n", "-N", "-j", "1", "-c", &clients.to_string(), "-T", &whole_seconds(time).to_string()]);
    pgbench.arg("-l").arg("--log-prefix").arg(logs.path().join("log")).arg(server.database());
    run(&mut pgbench)?;
    let mut all = latency_histogram();
    for log in std::fs::read_dir(logs.path()).context("listing pgbench's logs")? {
        let log = log.context("listing pgbench's logs")?.path();
        let text = std::fs::read_to_string(log).context("reading pgbench's log")?;
        for line in text.lines() {
            all.saturating_record(duration_us(line)?);
        }
    }
    if all.is_empty() {
        return Err(BenchError::Unusable("pgbench logged no transaction".into()));
    }
    Ok(all)
}

/// The third word of a line: client, transaction, time in µs, script, when it ended.
fn duration_us(line: &str) -> Result<u64, BenchError> {
    let duration = line.split(' ').nth(2).and_then(|word| word.parse().ok());
    duration.ok_or_else(|| BenchError::Unusable(format!("pgbench's log says: {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_has_the_duration() {
        assert_eq!(duration_us("0 199 2241 0 1175850568 995598").unwrap(), 2241);
        assert!(duration_us("0 199 skipped 0 1175850568 995598").is_err());
    }

    #[test]
    fn it_goes_on_for_whole_seconds() {
        let seconds = |time| whole_seconds(Duration::from_secs_f64(time));
        assert_eq!((seconds(0.2), seconds(2.0), seconds(2.5)), (1, 2, 3));
    }
}
