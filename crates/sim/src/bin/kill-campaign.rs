//! Kills programs and daemons by the hundred and checks that nothing acknowledged is lost.

use clap::Parser;
use cuesta_sim::kill::campaign::{Campaign, Programs};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Kills programs and daemons by the hundred and checks that nothing acknowledged is lost")]
struct Arguments {
    /// Kills in all
    #[arg(long, default_value_t = 300)]
    kills: u64,
    /// Kills on one store, before a new one is made
    #[arg(long, default_value_t = 30)]
    kills_per_store: u64,
    /// The most operations before a kill
    #[arg(long, default_value_t = 300)]
    operations: u64,
    /// Repeats a campaign
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The command under test [default: beside this program]
    #[arg(long)]
    cuesta: Option<PathBuf>,
    /// Leave the store of a failure where it is
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("kill-campaign: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let programs = Programs {
        cuesta: arguments.cuesta.clone().unwrap_or_else(|| here.with_file_name("cuesta")),
        writer: here.with_file_name("kill-writer"),
    };
    let mut done = 0;
    while done < arguments.kills {
        let seed = arguments.seed + done;
        let mut campaign = Campaign::new(programs.clone(), seed, arguments.operations)
            .map_err(|error| format!("no store: {error}"))?;
        for _ in 0..arguments.kills_per_store.min(arguments.kills - done) {
            if let Err(failure) = campaign.round() {
                let kept = if arguments.keep { campaign.keep().ok() } else { None };
                let kept = kept.map_or(String::new(), |path| format!(" (kept in {})", path.display()));
                return Err(format!("{failure}{kept}"));
            }
            done += 1;
        }
        println!("{done} of {} kills survived (store of seed {seed})", arguments.kills);
    }
    Ok(())
}
