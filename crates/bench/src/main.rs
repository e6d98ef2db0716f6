//! `cuesta-bench`: plain programs that are measured, and the runner that measures them on Cuesta and its peers.
//!
//! | room | idea |
//! |---|---|
//! | `works` | policy: which works there are, and the goals of each |
//! | `workload` | the programs that are measured |
//! | `peers` | the file systems that works are run on |
//! | `running` | the rounds of a run, and the stage they need |
//! | `processes` | children, daemons and users |
//! | `environment` | the machine, its disk, and places for peers |
//! | `figures` | clocks, figures and statistics |
//! | `report`, `curves` | tables, charts and JSON |
//! | `replay` | traces run through the policies of placement |

mod curves;
mod environment;
mod error;
mod figures;
mod peers;
mod processes;
mod replay;
mod report;
mod running;
mod workload;
mod works;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::curves::run::CurvesOptions;
use crate::error::{BenchError, Context};
use crate::peers::mount::MOUNTED;
use crate::peers::name::PeerName;
use crate::peers::null;
use crate::processes::daemon::Daemon;
use crate::replay::run::ReplayOptions;
use crate::report::json::write_json;
use crate::report::lines::Report;
use crate::report::table;
use crate::running::fio;
use crate::running::runner::{self, Settings};
use crate::running::stage::{Materials, Stage};
use crate::workload::run::Beside;
use crate::works::all::{self, Subject};
use crate::works::work::Work;

/// Measures Cuesta and its peers.
#[derive(Debug, Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Run all works on all peers, in turn, and print the table.
    ///
    /// Exit status: 0, also if goals are missed; 1 if a work failed on a peer or nothing could be run;
    /// 130 if interrupted.
    Run(RunOptions),
    /// Measure by the size of a request, by percentile and by the number of threads; print tables, draw plots.
    ///
    /// Appends with fsync, reads and overwrites of 64 B to 1 MiB: time and bandwidth. Appends with fsync and reads of 4 KiB: what
    /// 50 to 99.99 % of them take at most. Appends with fsync by 1, 2, 4 and 8 threads. Peers take turns; medians count.
    /// Peers in memory and peers on a disk have tables and plots of their own.
    ///
    /// Exit status: as of `run`.
    #[command(after_help = EXAMPLES_OF_CURVES)]
    Curves(CurvesOptions),
    /// Replay traces through the daemon's policies of placement, in a simulated store of two tiers.
    ///
    /// Writes land in the fast tier, while it has room. A mover moves pieces of files down as the policy says, in the trace's own time, and
    /// copies pieces up. The misses of reads are compared with Belady's optimum, with the best placement that does not change, and with the
    /// order by time of last change (the policy `ziggurat`).
    ///
    /// Exit status: 0, also if goals are missed; 1 if a trace cannot be read.
    #[command(after_help = EXAMPLES_OF_REPLAY)]
    Replay(ReplayOptions),
    /// Run one work here, unaided, and print what it measured as a line of JSON.
    Workload(WorkloadOptions),
    /// List the names of the works.
    List,
    /// Mount a FUSE file system that does nothing, and serve it until it is unmounted: the peer `null`.
    #[command(hide = true)]
    ServeNull {
        /// Where: a directory.
        at: PathBuf,
    },
}

const EXAMPLES_OF_CURVES: &str = "\
Examples:
  cuesta-bench curves --out out --json out/curves.json
          everything, as root; twenty minutes
  cuesta-bench curves --quick --peers cuesta,tmpfs --out out
          a first look, as anybody
  cuesta-bench curves --peers on-disk,ext4-disk,xfs-disk --disk-dir DIR --rounds 5 --out out
          what a disk does, with images in DIR";

const EXAMPLES_OF_REPLAY: &str = "\
Examples:
  cuesta-bench replay
          all traces that the bench makes itself; a minute
  cuesta-bench replay --synthetic scan,day --fast-share 12,25 --json out/replay.json
          two of them
  cuesta-bench replay web_0.csv --learn-seconds 86400 --out out
          a trace in the format of Microsoft Research Cambridge, with a plot
  fio --write_iolog=job.log job.fio && cuesta-bench replay job.log --fast-mib 64
          what fio did
  blkparse -i sda | tee sda.txt >/dev/null && cuesta-bench replay sda.txt --policy benefit --sample 1
          what a disk did, if each read were seen";

#[derive(Debug, Args)]
struct RunOptions {
    /// Write everything found out as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Shorter and rougher.
    #[arg(long)]
    quick: bool,
    /// Only the works with these names (see `list`).
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = work_named)]
    only: Vec<&'static Work>,
    /// Only the works about these subjects.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "only")]
    subject: Vec<Subject>,
    /// The peers, and the order they take turns in; those of mounts do only what has goals on them, and works that are named.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "cuesta,tmpfs,ext4-ram,ext4-disk,mount,null,bindfs,on-mount,on-disk,mount-disk,\
                         optimistic,eatmydata,spill"
    )]
    peers: Vec<PeerName>,
    /// Rounds of every work, in place of what each asks for.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    #[command(flatten)]
    materials: Materials,
    /// Check the append and page works against fio (psync), if it is installed.
    #[arg(long)]
    with_fio: bool,
}

#[derive(Debug, Args)]
struct WorkloadOptions {
    /// The work (see `list`).
    #[arg(value_parser = work_named)]
    work: &'static Work,
    /// A directory that is made, worked in and removed.
    #[arg(long)]
    dir: PathBuf,
    /// Shorter and rougher.
    #[arg(long)]
    quick: bool,
    /// Seconds of each measured phase, in place of what the work asks for.
    #[arg(long)]
    seconds: Option<f64>,
    /// Counters of the disk below (/sys/dev/block/*/stat): says what is asked of it, for works that tell.
    #[arg(long)]
    disk_counters: Option<PathBuf>,
    /// The process below /proc that serves the directory: says how much of the processor it takes, for works that tell.
    #[arg(long)]
    daemon: Option<PathBuf>,
}

fn work_named(name: &str) -> Result<&'static Work, String> {
    all::find(name).ok_or_else(|| "no such work; see `cuesta-bench list`".to_owned())
}

fn main() -> ExitCode {
    let ended = match CommandLine::parse().command {
        Subcommands::Run(options) => run(&options),
        Subcommands::Curves(options) => curves::run::run(&options),
        Subcommands::Replay(options) => replay::run::run(&options),
        Subcommands::Workload(options) => workload(&options),
        Subcommands::List => {
            all::all().for_each(|work| println!("{:<22} {}", work.name, work.rows[0].title));
            Ok(ExitCode::SUCCESS)
        }
        Subcommands::ServeNull { at } => {
            null::serve(&at, || println!("{MOUNTED}")).map(|()| ExitCode::SUCCESS)
        }
    };
    ended.unwrap_or_else(|error| {
        eprintln!("cuesta-bench: {error}");
        ExitCode::from(if matches!(error, BenchError::Interrupted) { 130 } else { 1 })
    })
}

fn workload(options: &WorkloadOptions) -> Result<ExitCode, BenchError> {
    let work = options.work;
    let seconds = if options.quick { work.seconds_quick } else { work.seconds };
    let time = Duration::try_from_secs_f64(options.seconds.unwrap_or(seconds))
        .map_err(|error| BenchError::Unusable(format!("--seconds: {error}")))?;
    let daemon = options.daemon.clone().map(Daemon::of_process);
    let beside = Beside { disk: options.disk_counters.clone(), daemon };
    let outcome = workload::run::run(work, &options.dir, time, &beside)?;
    println!("{}", serde_json::to_string(&outcome).context("printing what was measured")?);
    Ok(ExitCode::SUCCESS)
}

fn run(options: &RunOptions) -> Result<ExitCode, BenchError> {
    let is_named = !options.only.is_empty();
    let works: Vec<&Work> = if is_named {
        options.only.clone()
    } else if options.subject.is_empty() {
        all::all().collect()
    } else {
        options.subject.iter().flat_map(|subject| subject.works()).collect()
    };
    let is_concerned = |&peer: &PeerName| works.iter().any(|work| work.concerns(peer, is_named));
    let peers: Vec<PeerName> = options.peers.iter().copied().filter(is_concerned).collect();
    let mut stage = Stage::set_up(&peers, &options.materials)?;
    let fio = if options.with_fio { fio::find() } else { None };
    if options.with_fio && fio.is_none() {
        eprintln!("cuesta-bench: fio is not installed; going on without");
    }
    let settings = Settings { is_named, fio, ..stage.settings(options.quick, options.rounds)? };
    let measured = runner::run(&works, &mut stage.peers, &settings)?;

    let machine = stage.machine(settings.fio.as_deref());
    let skipped = std::mem::take(&mut stage.skipped);
    let report = Report::new(machine, options.quick, skipped, &measured, &stage.private());
    drop(stage);
    print!("{}", table::render(&report));
    if let Some(file) = &options.json {
        write_json(&report, file)?;
    }
    Ok(ExitCode::from(u8::from(!report.failures.is_empty())))
}
