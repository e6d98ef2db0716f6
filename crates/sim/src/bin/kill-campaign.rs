//! Kills programs, daemons and mounts by the hundred and checks that nothing acknowledged is lost.

use clap::Parser;
use cuesta_sim::doors::{Doors, why_no_mount};
use cuesta_sim::kill::Programs;
use cuesta_sim::kill::campaign::Campaign;
use cuesta_sim::kill::pair::PairCampaign;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    about = "Kills programs, daemons and mounts by the hundred and checks that nothing acknowledged is lost"
)]
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
    /// By which doors programs come to the store [default: a store by each, where a mount can be made]
    #[arg(long, value_enum)]
    doors: Option<Doors>,
    /// Repeats a campaign
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The command under test [default: beside this program]
    #[arg(long)]
    cuesta: Option<PathBuf>,
    /// Where stores are made; on a disk they are of medium block [default: in memory]
    #[arg(long, value_name = "DIR")]
    stores: Option<PathBuf>,
    /// A device of bytes (/dev/dax0.0): each store is made on it, and what it holds is lost
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,
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
        stores: arguments.stores.clone(),
        device: arguments.device.clone(),
    };
    if let Some(why) = why_no_mount().filter(|_| arguments.doors != Some(Doors::Run)) {
        match arguments.doors {
            Some(_) => return Err(format!("no mount can be made here: {why}")),
            None => println!("without a mount, which {why}"),
        }
    }
    let mut done = 0;
    for store in 0.. {
        if done >= arguments.kills {
            break;
        }
        let (seed, doors) = (arguments.seed + done, doors(arguments, store));
        let rounds = arguments.kills_per_store.min(arguments.kills - done);
        // Every other store is used by two programs at once.
        let users = match store % 2 == 1 {
            true => {
                let notes = two_programs(arguments, programs.clone(), (seed, doors), rounds)?;
                format!("two programs, {notes} notes")
            }
            false => {
                one_program(arguments, programs.clone(), (seed, doors), rounds)?;
                "one program".to_owned()
            }
        };
        done += rounds;
        println!(
            "{done} of {} kills survived (store of seed {seed}, doors: {doors:?}, {users})",
            arguments.kills
        );
    }
    Ok(())
}

/// By which doors programs come to a store, by its number.
fn doors(arguments: &Arguments, store: u64) -> Doors {
    const TURNS: [Doors; 3] = [Doors::Run, Doors::Mount, Doors::Both];
    let in_turn = if why_no_mount().is_none() { TURNS[(store / 2 % 3) as usize] } else { Doors::Run };
    arguments.doors.unwrap_or(in_turn)
}

fn one_program(
    arguments: &Arguments,
    programs: Programs,
    (seed, doors): (u64, Doors),
    rounds: u64,
) -> Result<(), String> {
    let mut campaign = Campaign::new(programs, seed, doors, arguments.operations)
        .map_err(|error| format!("no store: {error}"))?;
    for _ in 0..rounds {
        if let Err(failure) = campaign.round() {
            return Err(with_kept(failure, arguments.keep.then(|| campaign.keep())));
        }
    }
    Ok(())
}

fn two_programs(
    arguments: &Arguments,
    programs: Programs,
    (seed, doors): (u64, Doors),
    rounds: u64,
) -> Result<u64, String> {
    let mut campaign = PairCampaign::new(programs, seed, doors, arguments.operations)
        .map_err(|error| format!("no store: {error}"))?;
    for _ in 0..rounds {
        if let Err(failure) = campaign.round() {
            return Err(with_kept(failure, arguments.keep.then(|| campaign.keep())));
        }
    }
    Ok(campaign.notes())
}

fn with_kept(failure: impl Display, kept: Option<std::io::Result<PathBuf>>) -> String {
    let kept =
        kept.and_then(Result::ok).map_or(String::new(), |path| format!(" (kept in {})", path.display()));
    format!("{failure}{kept}")
}
