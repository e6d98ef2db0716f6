//! A run of curves: measures, prints the tables and writes the files.

use super::report::Report;
use super::table::{self, Step};
use super::{chart, markdown, plot};
use crate::error::{BenchError, Context};
use crate::peers::name::PeerName;
use crate::report::json::write_json;
use crate::running::runner::{self, Settings};
use crate::running::stage::{Materials, Stage};
use crate::works::work::Work;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// The options of `curves`.
#[derive(Debug, Args)]
pub struct CurvesOptions {
    /// Write all values as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the plots as SVG into this directory, which is made.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Fewer sizes, shorter and rougher.
    #[arg(long)]
    quick: bool,
    /// The peers, and the order they take turns in.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "cuesta,tmpfs,ext4-ram,xfs-ram,on-disk,ext4-disk,xfs-disk"
    )]
    peers: Vec<PeerName>,
    /// Rounds of every point.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    #[command(flatten)]
    materials: Materials,
}

/// Measures, prints the tables and writes the files.
pub fn run(options: &CurvesOptions) -> Result<ExitCode, BenchError> {
    if let Some(peer) =
        options.peers.iter().find(|peer| !table::GROUPS.iter().any(|g| g.peers.contains(peer)))
    {
        return Err(BenchError::Unusable(format!("--peers: {} is in no plot", peer.as_str())));
    }
    let mut stage = Stage::set_up(&options.peers, &options.materials)?;
    // The bench measures a disk only for works that the user names. Here it takes all works as named.
    let settings = Settings { is_named: true, ..stage.settings(options.quick, options.rounds)? };
    let steps: Vec<&'static Step> = table::steps(options.quick).collect();
    let works: Vec<&'static Work> = steps.iter().map(|step| &step.work).collect();
    let measured = runner::run(&works, &mut stage.peers, &settings)?;

    let report = Report {
        schema: 1,
        machine: stage.machine(None),
        quick: options.quick,
        skipped: std::mem::take(&mut stage.skipped),
        charts: chart::charts(&steps, &measured),
        failures: runner::failures(&measured, &stage.private()),
    };
    drop(stage);
    print!("{}", markdown::render(&report));
    if let Some(file) = &options.json {
        write_json(&report, file)?;
    }
    if let Some(dir) = &options.out {
        std::fs::create_dir_all(dir).context("making the directory for the plots")?;
        for (name, svg) in plot::plots(&report.charts)? {
            std::fs::write(dir.join(&name), svg).context(format!("writing {name}"))?;
        }
    }
    Ok(ExitCode::from(u8::from(!report.failures.is_empty())))
}
