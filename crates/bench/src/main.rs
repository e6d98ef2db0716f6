//! `cuesta-bench`: plain programs that are measured, and the runner that measures them on Cuesta and its peers.
//!
//! `works` is the policy (which works, what goals); everything else is mechanism: `workload` the programs,
//! `measure` and `stats` the figures, `peers` on `scratch` the file systems, `child` the processes, `daemon` what
//! the kernel tells of one, `runner` the rounds, `report` the verdicts.

mod child;
mod daemon;
mod error;
mod fio;
mod goal;
mod machine;
mod measure;
mod null;
mod peers;
mod report;
mod runner;
mod scratch;
mod stats;
mod workload;
mod works;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::error::{BenchError, Context};
use crate::machine::Machine;
use crate::peers::cuesta::Cuesta;
use crate::peers::kernel::Kernel;
use crate::peers::mount::{MOUNTED, Mount, Null, bindfs};
use crate::peers::{Peer, PeerName};
use crate::report::{Report, table};
use crate::runner::Settings;
use crate::scratch::Scratch;
use crate::works::{GIB, WORKS, Work};

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
    /// The peers, and the order they take turns in; those of mounts do only what has goals on them, and works that are named.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "cuesta,tmpfs,ext4-ram,ext4-disk,mount,null,bindfs,on-mount,on-disk"
    )]
    peers: Vec<PeerName>,
    /// Rounds of every work, in place of what each asks for.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// The `cuesta` command [default: beside this program].
    #[arg(long, value_name = "PATH")]
    cuesta: Option<PathBuf>,
    /// Size of the fast tier of the store.
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    nvm: String,
    /// A directory on a disk, for the images of ext4-disk and on-disk (6 GiB each).
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    disk_dir: PathBuf,
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
}

fn work_named(name: &str) -> Result<&'static Work, String> {
    works::find(name).ok_or_else(|| "no such work; see `cuesta-bench list`".to_owned())
}

fn main() -> ExitCode {
    let ended = match CommandLine::parse().command {
        Subcommands::Run(options) => run(&options),
        Subcommands::Workload(options) => workload(&options),
        Subcommands::List => {
            WORKS.iter().for_each(|work| println!("{:<18} {}", work.name, work.rows[0].title));
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
    let outcome = workload::run(work, &options.dir, time)?;
    println!("{}", serde_json::to_string(&outcome).context("printing what was measured")?);
    Ok(ExitCode::SUCCESS)
}

fn run(options: &RunOptions) -> Result<ExitCode, BenchError> {
    // The namespace comes first: threads started before it would not see its mounts.
    let mut scratch = Scratch::new()?;
    child::catch_interrupts()?;
    let own_executable = std::env::current_exe().context("finding our own executable")?;
    let binary = options.cuesta.clone().unwrap_or_else(|| own_executable.with_file_name("cuesta"));

    let mut skipped = BTreeMap::new();
    let mut peers: Vec<Box<dyn Peer>> = Vec::new();
    for &name in &options.peers {
        if peers.iter().any(|peer| peer.name() == name) {
            continue;
        }
        match set_up(name, &mut scratch, &binary, &own_executable, options) {
            Ok(peer) => peers.push(peer),
            Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
            Err(reason) => {
                let reason = reason.to_string().replace(&*scratch.root().to_string_lossy(), "(scratch)");
                eprintln!("cuesta-bench: {} skipped: {reason}", name.as_str());
                skipped.insert(name, reason);
            }
        }
    }
    if peers.is_empty() {
        return Err(BenchError::Unusable("no peer could be set up".to_owned()));
    }

    let fio = if options.with_fio { fio::find() } else { None };
    if options.with_fio && fio.is_none() {
        eprintln!("cuesta-bench: fio is not installed; going on without");
    }
    let settings = Settings {
        quick: options.quick,
        is_named: !options.only.is_empty(),
        rounds: options.rounds,
        fio,
        elsewhere: scratch.tmpfs("elsewhere", ELSEWHERE_BYTES)?,
        touched_bytes_max: touched_bytes_max().min(ELSEWHERE_BYTES),
        own_executable,
    };
    let works: Vec<&Work> =
        if options.only.is_empty() { WORKS.iter().collect() } else { options.only.clone() };
    let measured = runner::run(&works, &mut peers, &settings)?;

    let has_cuesta = peers.iter().any(|peer| peer.name() == PeerName::Cuesta);
    let machine = Machine::describe(has_cuesta.then_some(&*binary), settings.fio.as_deref());
    let private = scratch.root().to_string_lossy().into_owned();
    let report = Report::new(machine, options.quick, skipped, &measured, &private);
    drop(peers);
    print!("{}", table::render(&report));
    if let Some(file) = &options.json {
        write_json(&report, file)?;
    }
    Ok(ExitCode::from(u8::from(!report.failures.is_empty())))
}

/// Size of the tmpfs for what is not the peer's.
const ELSEWHERE_BYTES: u64 = 4 * GIB;

/// A quarter of the memory there is.
fn touched_bytes_max() -> u64 {
    let facts = rustix::system::sysinfo();
    facts.totalram * u64::from(facts.mem_unit) / 4
}

fn set_up(
    name: PeerName,
    scratch: &mut Scratch,
    binary: &Path,
    own_executable: &Path,
    options: &RunOptions,
) -> Result<Box<dyn Peer>, BenchError> {
    const KERNEL_BYTES: u64 = 4 * GIB;
    const CUESTA_BYTES_MAX: u64 = 16 * GIB;
    const DISK_BYTES: u64 = 6 * GIB;
    let at = match name {
        PeerName::Cuesta | PeerName::Mount | PeerName::OnMount | PeerName::OnDisk => {
            if !binary.is_file() {
                return Err(BenchError::Unusable(
                    "no `cuesta` beside cuesta-bench; build it, or see --cuesta".into(),
                ));
            }
            let home = match name {
                PeerName::OnDisk => scratch.ext4_on_disk(name.as_str(), &options.disk_dir, DISK_BYTES)?,
                _ => scratch.tmpfs(name.as_str(), CUESTA_BYTES_MAX)?,
            };
            let (binary, own) = (binary.to_owned(), own_executable.to_owned());
            let cuesta = Cuesta::new(name, binary, own, home, options.nvm.clone())?;
            return Ok(match name {
                PeerName::Mount => Box::new(Mount::new(cuesta, scratch.mount_point("mounted")?)),
                PeerName::OnMount => {
                    Box::new(Mount::for_run(cuesta, scratch.mount_point("mounted-for-run")?))
                }
                _ => Box::new(cuesta),
            });
        }
        PeerName::Null => return Ok(Box::new(Null::new(own_executable, scratch.mount_point("null")?)?)),
        PeerName::Bindfs => {
            let below = scratch.tmpfs("below-bindfs", KERNEL_BYTES)?;
            let at = scratch.mount_point("bindfs")?;
            return Ok(Box::new(bindfs(&below, at)?));
        }
        PeerName::Tmpfs => scratch.tmpfs("tmpfs", KERNEL_BYTES)?,
        PeerName::Ext4Ram => scratch.ext4_in_memory("ext4-ram", KERNEL_BYTES)?,
        PeerName::Ext4Disk => scratch.ext4_on_disk("ext4-disk", &options.disk_dir, DISK_BYTES)?,
    };
    Ok(Box::new(Kernel::new(name, at)))
}

fn write_json(report: &Report, file: &Path) -> Result<(), BenchError> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).context("making the directory for the JSON")?;
    }
    let json = serde_json::to_string_pretty(report).context("writing the JSON")?;
    std::fs::write(file, json + "\n").context("writing the JSON")
}
