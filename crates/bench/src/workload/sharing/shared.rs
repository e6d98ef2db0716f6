//! Several processes that do the same in one place. Each is a member of one workload and measures its own operations.

use super::append::{AccessLog, Append};
use super::mail::Mail;
use super::nginx::Nginx;
use super::pages::Pages;
use crate::error::BenchError;
use crate::figures::measure::{Figure, Outcome};
use crate::workload::pieces::members;
use std::path::Path;
use std::time::Duration;

/// What members do.
#[derive(Clone, Copy, Debug)]
pub enum Shared {
    /// Deliver mail into one Maildir.
    Mail(Mail),
    /// Append to one file.
    Append(Append),
    /// Serve a page and log the request, as the workers of a web server do.
    AccessLog(AccessLog),
    /// Fetch a page from nginx.
    Nginx(Nginx),
    /// Overwrite and read pages of one file.
    Pages(Pages),
}

impl Shared {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let outcomes = match self {
            Shared::Mail(mail) => mail.run(dir, time),
            Shared::Append(append) => append.run(dir, time),
            Shared::AccessLog(log) => log.run(dir, time),
            Shared::Nginx(nginx) => nginx.run(dir, time),
            Shared::Pages(pages) => pages.run(dir, time),
        };
        Ok(together(&outcomes?))
    }
}

/// What members reached together, with the longest wait that any of them had for a single call.
fn together(outcomes: &[Outcome]) -> Outcome {
    let waits = outcomes.iter().filter_map(|outcome| outcome.figures.get(&Figure::LongestWait));
    let longest = waits.copied().fold(0.0, f64::max);
    members::together(outcomes).with(Figure::LongestWait, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_of_any_member_counts() {
        let one = |longest| Outcome {
            latency: vec![(1_000_000, 5)],
            ..Outcome::of(Figure::LongestWait, longest).with(Figure::Rate, 5.0)
        };
        let whole = together(&[one(3.0), one(70.0), one(2.0)]);
        assert_eq!(whole.figures[&Figure::LongestWait], 70.0);
        assert!((whole.figures[&Figure::Rate] - 15.0).abs() < 0.01);
    }
}
