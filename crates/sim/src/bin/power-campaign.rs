//! Cuts the power of the disk below a store in optimistic mode, and checks the store.

use clap::Parser;
use cuesta_sim::doors::why_no_mount;
use cuesta_sim::power::campaign::PowerCampaign;
use cuesta_sim::power::records::Survived;
use cuesta_sim::soak::Interruption;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Parser)]
#[command(
    about = "Cuts the power of the disk below a store in optimistic mode while two processes that take turns, SQLite and \
             PostgreSQL work on it, and checks that what is left is all they had done at one moment, within the bound",
    after_help = "\
Examples:
  power-campaign --cuts 500
  power-campaign --seed 42 --cuts 20 --keep     # the disk of a failure stays, as a file
  power-campaign --cuts 20 --postgres never

It needs root, FUSE and loop devices. PostgreSQL is at work on every third store if it is installed."
)]
struct Arguments {
    /// Cuts in all
    #[arg(long, default_value_t = 500)]
    cuts: u64,
    /// Cuts on one store, before a new one is made
    #[arg(long, default_value_t = 20)]
    cuts_per_store: u64,
    /// On which stores PostgreSQL is at work
    #[arg(long, value_enum, default_value_t)]
    postgres: Which,
    /// Repeats a campaign
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The command under test [default: beside this program]
    #[arg(long)]
    cuesta: Option<PathBuf>,
    /// Leave the disk of a failure, as a file
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Every third one, if it is installed
    #[default]
    Some,
    /// All, if it is installed
    All,
    /// None
    Never,
}

/// The status that a shell gives to a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(why) = why_no_mount() {
        eprintln!("power-campaign: no disk can be made here: it {why}");
        return ExitCode::FAILURE;
    }
    let interruption = match Interruption::listen() {
        Ok(interruption) => interruption,
        Err(error) => {
            eprintln!("power-campaign: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = run(&arguments, &interruption);
    if interruption.came() {
        interruption.end();
        eprintln!("power-campaign: interrupted; nothing is left of it");
        return ExitCode::from(INTERRUPTED);
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("power-campaign: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The counts of all rounds.
#[derive(Default)]
struct Counted {
    acknowledged: u64,
    lost: u64,
    oldest_lost_ns: u64,
}

impl Counted {
    fn add(&mut self, survived: Option<Survived>) {
        let Some(survived) = survived else { return };
        self.acknowledged += survived.acknowledged;
        self.lost += survived.lost;
        self.oldest_lost_ns = self.oldest_lost_ns.max(survived.oldest_lost_ns);
    }
}

fn run(arguments: &Arguments, interruption: &Interruption) -> Result<(), String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let cuesta = arguments.cuesta.clone().unwrap_or_else(|| here.with_file_name("cuesta"));
    let (began, mut done, mut counted) = (Instant::now(), 0, Counted::default());
    for store in 0.. {
        if done >= arguments.cuts {
            break;
        }
        let (seed, rounds) = (arguments.seed + done, arguments.cuts_per_store.min(arguments.cuts - done));
        let with_postgres = match arguments.postgres {
            Which::Some => store % 3 == 1,
            Which::All => true,
            Which::Never => false,
        };
        let campaign = PowerCampaign::new(&cuesta, seed, with_postgres);
        let mut campaign = campaign.map_err(|error| format!("no store: {error}"))?;
        for round in 0..=rounds {
            let outcome = if round < rounds { campaign.round() } else { campaign.end() };
            if interruption.came() {
                return Ok(());
            }
            match outcome {
                Ok(survived) => counted.add(survived),
                Err(failure) => {
                    let kept = arguments.keep.then(|| campaign.keep()).and_then(Result::ok);
                    let kept = kept.map_or(String::new(), |path| format!("\nthe disk is {}", path.display()));
                    return Err(format!("{failure}{kept}"));
                }
            }
        }
        done += rounds;
        println!(
            "{done} of {} cuts survived in {} s (store of seed {seed}{}): {} records acknowledged, {} lost, the oldest of them {} ms old",
            arguments.cuts,
            began.elapsed().as_secs(),
            if campaign.has_postgres() { ", PostgreSQL" } else { "" },
            counted.acknowledged,
            counted.lost,
            counted.oldest_lost_ns / 1_000_000,
        );
    }
    Ok(())
}
