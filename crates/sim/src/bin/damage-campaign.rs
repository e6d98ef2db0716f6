//! Damages a store in many ways, one at a time, and looks whether each is healed or told.

use clap::{Parser, Subcommand};
use cuesta_sim::damage::{Campaign, Installed, Kind, Outcome, Part, fill, look};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

#[derive(Parser)]
#[command(
    about = "Damages files of a store on a disk, one at a time, and looks whether each damage is healed or told",
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    program: Option<Program>,
    /// How many damages
    #[arg(long, default_value_t = 1000)]
    trials: u64,
    /// The number of the first
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Repeats a campaign [default: another each time]
    #[arg(long)]
    seed: Option<u64>,
    /// Which files are damaged [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    files: Vec<Part>,
    /// What is done to them [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Ends with the first failure, and leaves its store
    #[arg(long)]
    keep: bool,
    /// Says what became of each
    #[arg(long, short)]
    verbose: bool,
    /// The command under test [default: beside this program]
    #[arg(long)]
    cuesta: Option<PathBuf>,
    /// Where copies of the store are damaged [default: in memory]
    #[arg(long, value_name = "DIR")]
    stores: Option<PathBuf>,
}

/// What runs on the store.
#[derive(Subcommand)]
enum Program {
    /// Makes a stage of the content
    #[command(hide = true)]
    Fill {
        root: PathBuf,
        seed: u64,
        stage: String,
        /// Does not end by itself
        #[arg(long)]
        stay: bool,
    },
    /// Prints how all content reads
    #[command(hide = true)]
    Look { root: PathBuf },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.program {
        None => run(&arguments),
        Some(Program::Look { root }) => look(root).map(|()| true).map_err(|error| error.to_string()),
        Some(Program::Fill { root, seed, stage, stay }) => {
            fill(root, *seed, stage).map(|()| {
                if *stay {
                    println!("filled");
                    // Until the campaign kills it, or has ended.
                    let _ = std::io::stdin().read(&mut [0]);
                }
                true
            })
        }
        .map_err(|error| error.to_string()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("damage-campaign: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let campaign = std::env::current_exe().map_err(|error| error.to_string())?;
    let cuesta = arguments.cuesta.clone().unwrap_or_else(|| campaign.with_file_name("cuesta"));
    let installed = Installed { cuesta, campaign, stores: arguments.stores.clone() };
    let seed = arguments.seed.unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(1, |since| since.as_secs())
    });
    let parts = if arguments.files.is_empty() { &Part::ALL[..] } else { &arguments.files };
    let kinds = if arguments.kinds.is_empty() { &Kind::ALL[..] } else { &arguments.kinds };
    println!("seed {seed}");
    let began = Instant::now();
    let failed = |error: std::io::Error| error.to_string();
    let campaign = Campaign::new(installed, seed, parts, kinds).map_err(failed)?;
    let mut outcomes: BTreeMap<(Part, Kind), [u64; 4]> = BTreeMap::new();
    let mut failures = 0;
    for number in arguments.from..arguments.from + arguments.trials {
        let trial = campaign.trial(number).map_err(failed)?;
        let column = match &trial.outcome {
            Ok(Outcome::Healed) => 0,
            Ok(Outcome::Told) => 1,
            Ok(Outcome::Repaired) => 2,
            Err(_) => 3,
        };
        outcomes.entry((trial.part, trial.kind)).or_default()[column] += 1;
        match &trial.outcome {
            Ok(outcome) if arguments.verbose => println!("{number}: {outcome:?}: {}", trial.what),
            Ok(_) => {}
            Err(failure) => {
                failures += 1;
                println!("{number} FAILED: {}\n    {}", trial.what, failure.0);
                let _ = std::io::stdout().flush();
                if arguments.keep {
                    println!("kept: {}", campaign.keep().map_err(failed)?.display());
                    break;
                }
            }
        }
    }
    println!(
        "{:<12} {:<8} {:>7} {:>7} {:>9} {:>7}",
        "files", "damage", "healed", "told", "repaired", "failed"
    );
    for ((part, kind), [healed, told, repaired, failed]) in &outcomes {
        let (part, kind) = (format!("{part:?}"), format!("{kind:?}"));
        println!("{part:<12} {kind:<8} {healed:>7} {told:>7} {repaired:>9} {failed:>7}");
    }
    let total = outcomes.values().flatten().sum::<u64>();
    println!("{total} damages in {} s, {failures} neither healed nor told", began.elapsed().as_secs());
    Ok(failures == 0)
}
