//! A family of processes, or one of them: see `cuesta_sim::family`.

use clap::{Parser, Subcommand};
use cuesta_sim::family::conductor;
use cuesta_sim::family::member::Member;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    about = "Has processes that fork, spawn and exec make seeded calls in turns, and prints what each was told"
)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Args)]
struct Location {
    /// The directory to work in, by an absolute path
    #[arg(long)]
    root: String,
    /// Which member this is
    #[arg(long)]
    number: usize,
}

#[derive(Subcommand)]
enum Action {
    /// Make the directory, conduct a family in it and print its record
    Conduct {
        /// The directory to make and work in, by an absolute path
        #[arg(long)]
        root: String,
        /// What everything follows from
        #[arg(long)]
        seed: u64,
        /// How many steps
        #[arg(long, default_value_t = 300)]
        steps: u64,
    },
    /// Be a member that was spawned
    Work(Location),
    /// Be a member that has become a new program
    GoOn(Location),
}

fn main() -> ExitCode {
    let program = std::env::current_exe().map(|path| path.to_string_lossy().into_owned());
    let Ok(program) = program else {
        eprintln!("family: cannot find out what program this is");
        return ExitCode::FAILURE;
    };
    let member =
        |place: Location| Member { number: place.number, root: place.root, program: program.clone() };
    match Arguments::parse().action {
        Action::Conduct { root, seed, steps } => {
            let conducted = std::fs::create_dir(&root).and_then(|()| {
                conductor::conduct(&root, &program, seed, steps, &mut std::io::stdout().lock())
            });
            match conducted {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("family: {root}: {error}");
                    ExitCode::FAILURE
                }
            }
        }
        Action::Work(place) => member(place).work(),
        Action::GoOn(place) => member(place).go_on(),
    }
}
