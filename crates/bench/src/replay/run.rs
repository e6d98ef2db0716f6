//! The command: reads or makes traces, replays them, prints the tables and writes the files.

use super::comparing::{Comparing, FastTier};
use super::report::Report;
use super::synthetic::all::{self, Named};
use super::synthetic::scenario::{SECOND_US, Scenario, Subject};
use super::traces::format::{Format, read_file};
use super::{plot, table};
use crate::error::{BenchError, Context};
use crate::figures::units::{KIB, MIB};
use crate::report::json::write_json;
use clap::Args;
use cuesta_placement::{Kind, Limits};
use std::path::PathBuf;
use std::process::ExitCode;

/// The options of `replay`.
#[derive(Debug, Args)]
pub struct ReplayOptions {
    /// Traces; without any, and without --synthetic, all traces that the bench makes itself.
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The format of the traces, in place of what their first lines tell.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Traces that the bench makes itself.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = all::find)]
    synthetic: Vec<&'static Named>,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// The policies that are compared.
    #[arg(long, value_delimiter = ',', default_value = "ziggurat,frequency,benefit")]
    policy: Vec<Kind>,
    /// Sizes of the fast tier, in percent of the largest amount of content that the trace has at one time.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "2,3,6,12,25,50,100")]
    fast_share: Vec<f64>,
    /// The size of the fast tier, in MiB.
    #[arg(long, value_name = "MIB", conflicts_with = "fast_share")]
    fast_mib: Option<u64>,
    /// The length of a piece in KiB: 4 to 256, a multiple of 4.
    #[arg(long, value_name = "KIB", default_value_t = 64, value_parser = piece_kib)]
    piece_kib: u64,
    /// Policies see one read in so many.
    #[arg(long, value_name = "READS", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,
    /// Content that was written less than so long ago moves down only if it is urgent.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    cold_seconds: u64,
    /// Megabytes that the lower disk reads or writes in a second.
    #[arg(long, value_name = "MB", default_value_t = 438.0, value_parser = rate)]
    mb_per_second: f64,
    /// Reads in the first so many seconds of a trace are not counted.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    learn_seconds: u64,
    /// So many pieces are known to a policy at most.
    #[arg(long, value_name = "PIECES", default_value_t = 1 << 20)]
    pieces_max: usize,
    /// The time from a request to the next one where a format has no times.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 100)]
    step_us: u64,
    /// Write everything found out as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a plot of each trace as SVG into this directory, which is made.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn piece_kib(text: &str) -> Result<u64, String> {
    let kib: u64 = text.parse().map_err(|_| "no number".to_owned())?;
    let is_usable = (4..=256).contains(&kib) && kib.is_multiple_of(4);
    if is_usable { Ok(kib) } else { Err("4 to 256, a multiple of 4".to_owned()) }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err("more than 0".to_owned()) }
}

/// Reads or makes traces, replays them, prints the tables and writes the files.
pub fn run(options: &ReplayOptions) -> Result<ExitCode, BenchError> {
    if let Some(share) = options.fast_share.iter().find(|share| !(0.0..=100.0).contains(*share)) {
        return Err(BenchError::Unusable(format!("--fast-share: {share} is not between 0 and 100")));
    }
    let shares = options.fast_share.iter().map(|&percent| FastTier::Share(percent));
    let comparing = Comparing {
        policies: options.policy.clone(),
        fast_tiers: match options.fast_mib {
            Some(mib) => vec![FastTier::Bytes(mib.saturating_mul(MIB))],
            None => shares.collect(),
        },
        piece_bytes: options.piece_kib * KIB,
        limits: Limits { pieces_max: options.pieces_max, cold_ms: options.cold_seconds.saturating_mul(1000) },
        sample: options.sample,
        mb_per_second: options.mb_per_second,
        seed: options.seed,
    };
    let mut report = Report {
        schema: 1,
        seed: options.seed,
        piece_bytes: comparing.piece_bytes,
        sample: options.sample,
        mb_per_second: options.mb_per_second,
        cold_ms: comparing.limits.cold_ms,
        traces: Vec::new(),
    };
    for path in &options.traces {
        let trace = read_file(path, options.format, options.step_us)?;
        let counted_from_us = options.learn_seconds.saturating_mul(SECOND_US);
        report.traces.push(comparing.compare(&Scenario {
            trace,
            counted_from_us,
            subject: Subject::Mixed,
        })?);
    }
    let all: Vec<&Named> = all::ALL.iter().collect();
    let has_none = options.traces.is_empty() && options.synthetic.is_empty();
    for named in if has_none { &all } else { &options.synthetic } {
        report.traces.push(comparing.compare(&named.make(options.seed))?);
    }
    print!("{}", table::render(&report));
    if let Some(file) = &options.json {
        write_json(&report, file)?;
    }
    if let Some(dir) = &options.out {
        std::fs::create_dir_all(dir).context("making the directory for the plots")?;
        for (name, svg) in plot::plots(&report)? {
            std::fs::write(dir.join(&name), svg).context(format!("writing {name}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
