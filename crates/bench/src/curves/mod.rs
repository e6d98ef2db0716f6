//! Curves: what varies with the size of a request, from the fastest to the slowest operations, and with the number of
//! threads. As JSON, as SVG, one file a plot, and as tables of Markdown.
//!
//! `table` is the policy (which curves, which points, which peers); `chart` turns outcomes into points, `plot` and
//! `markdown` show them. The works of the steps are run as all others are.

mod chart;
mod markdown;
mod plot;
pub mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use self::chart::Chart;
use self::table::Step;
use crate::error::{BenchError, Context};
use crate::machine::Machine;
use crate::peers::PeerName;
use crate::runner::{self, Settings};
use crate::stage::{Materials, Stage};
use crate::works::Work;

/// What is asked of `curves`.
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

/// Everything a run found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this form of JSON.
    pub schema: u32,
    /// What it was measured on.
    pub machine: Machine,
    /// Whether it was a quick run.
    pub quick: bool,
    /// Peers that could not be had, and why.
    pub skipped: BTreeMap<PeerName, String>,
    /// The charts.
    pub charts: Vec<Chart>,
    /// By work: peers that failed it, and why.
    pub failures: BTreeMap<&'static str, BTreeMap<PeerName, String>>,
}

/// Measures, prints the tables and writes the files.
pub fn run(options: &CurvesOptions) -> Result<ExitCode, BenchError> {
    if let Some(peer) =
        options.peers.iter().find(|peer| !table::GROUPS.iter().any(|g| g.peers.contains(peer)))
    {
        return Err(BenchError::Unusable(format!("--peers: {} is in no plot", peer.as_str())));
    }
    let mut stage = Stage::set_up(&options.peers, &options.materials)?;
    // Of a disk, only what is asked for by its name is measured, and here all is.
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
        crate::write_json(&report, file)?;
    }
    if let Some(dir) = &options.out {
        std::fs::create_dir_all(dir).context("making the directory for the plots")?;
        for (name, svg) in plot::plots(&report.charts)? {
            std::fs::write(dir.join(&name), svg).context(format!("writing {name}"))?;
        }
    }
    Ok(ExitCode::from(u8::from(!report.failures.is_empty())))
}
