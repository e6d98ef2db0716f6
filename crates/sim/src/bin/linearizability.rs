//! Has processes work at once on one store, kills and stops them and the daemon, and checks that each call took effect at
//! one instant; and is those processes.

use clap::{Parser, Subcommand};
use cuesta_sim::doors::Doors;
use cuesta_sim::kill::Programs;
use cuesta_sim::linearizability::campaign::{Campaign, Round, STARTED};
use cuesta_sim::linearizability::ledger::Ledger;
use cuesta_sim::linearizability::{calls, worker};
use cuesta_sim::operation::{Operation, Outcome};
use cuesta_sim::posix::Posix;
use rustix::io::Errno;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    about = "Has processes work at once on one store while they and the daemon are killed and stopped, and checks \
             that each call took effect at one instant"
)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Args)]
struct CampaignArguments {
    /// Rounds in all
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// Rounds on one store, before a new one is made
    #[arg(long, default_value_t = 10)]
    rounds_per_store: u64,
    /// Processes at once
    #[arg(long, default_value_t = 5)]
    processes: usize,
    /// Faults in a round
    #[arg(long, default_value_t = 8)]
    faults: u64,
    /// By which doors the processes come to the store
    #[arg(long, value_enum, default_value_t)]
    doors: Doors,
    /// Repeats a campaign
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The command under test [default: beside this program]
    #[arg(long)]
    cuesta: Option<PathBuf>,
    /// Where stores are made; on a disk they are of medium block [default: in memory]
    #[arg(long, value_name = "DIR")]
    stores: Option<PathBuf>,
    /// Leave the store of a failure where it is
    #[arg(long)]
    keep: bool,
}

#[derive(clap::Args)]
struct Location {
    /// The directory to work in
    #[arg(long)]
    root: String,
    /// Where to write down what happens
    #[arg(long)]
    ledger: PathBuf,
    /// What the calls follow from
    #[arg(long)]
    seed: u64,
    /// Which process this is
    #[arg(long)]
    lane: usize,
    /// By which doors processes come to the store
    #[arg(long, value_enum)]
    doors: Doors,
}

#[derive(Subcommand)]
enum Action {
    /// Run a campaign
    Campaign(CampaignArguments),
    /// Make the places of a round
    Prepare {
        /// The directory to make and work in
        #[arg(long)]
        root: String,
    },
    /// Be one of the processes of a round
    Work(Location),
    /// Be the last one
    Look(Location),
}

fn main() -> ExitCode {
    // SAFETY: umask cannot fail; modes are to be what the calls say.
    unsafe { libc::umask(0) };
    let result = match Arguments::parse().action {
        Action::Campaign(arguments) => campaign(&arguments),
        Action::Prepare { root } => std::fs::create_dir(&root)
            .map_err(|error| error.to_string())
            .and_then(|()| worker::prepare(&mut libc_below(&root))),
        Action::Work(place) => std::io::stdout()
            .write_all(STARTED)
            .map_err(|error| error.to_string())
            .and_then(|()| work(&place, calls::calls(place.seed, place.lane, place.doors))),
        Action::Look(place) => work(&place, calls::looks().into_iter()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("linearizability: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn libc_below(root: &str) -> impl FnMut(&Operation) -> Result<Outcome, Errno> {
    let mut posix = Posix::new(root);
    move |operation| posix.apply(operation)
}

fn work(place: &Location, calls: impl Iterator<Item = calls::Call>) -> Result<(), String> {
    let ledger =
        Ledger::open(&place.ledger).map_err(|error| format!("{}: {error}", place.ledger.display()))?;
    let door = place.doors.of(place.lane as u64);
    worker::work(calls, &ledger, (place.lane, door), &mut libc_below(&place.root))
}

fn campaign(arguments: &CampaignArguments) -> Result<(), String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let programs = Programs {
        cuesta: arguments.cuesta.clone().unwrap_or_else(|| here.with_file_name("cuesta")),
        writer: here,
        stores: arguments.stores.clone(),
        device: None,
    };
    let round = Round { processes: arguments.processes, faults: arguments.faults };
    let mut done = 0;
    while done < arguments.rounds {
        let seed = arguments.seed + done;
        let mut campaign = Campaign::new(programs.clone(), seed, arguments.doors)
            .map_err(|error| format!("no store: {error}"))?;
        let rounds = arguments.rounds_per_store.min(arguments.rounds - done);
        for _ in 0..rounds {
            if let Err(failure) = campaign.round(round) {
                let kept = arguments.keep.then(|| campaign.keep()).and_then(Result::ok);
                let kept = kept.map_or(String::new(), |path| format!(" (kept in {})", path.display()));
                return Err(format!("{failure}{kept}"));
            }
        }
        done += rounds;
        let counted = campaign.counted();
        println!(
            "{done} of {} rounds (store of seed {seed}): {} calls, {} killed under way, {} met another",
            arguments.rounds, counted.calls, counted.killed, counted.overlaps
        );
    }
    Ok(())
}
