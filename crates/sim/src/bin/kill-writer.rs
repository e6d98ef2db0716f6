//! The program a kill campaign runs on a store: it writes until it is killed, or verifies.

use clap::{Parser, Subcommand};
use cuesta_sim::doors::Door;
use cuesta_sim::kill::history::{self, History};
use cuesta_sim::kill::shared::{self, Note, Published};
use cuesta_sim::kill::writer;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Writes to a store until it is killed, or checks what survived")]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Args)]
struct Where {
    /// The directory to work in
    #[arg(long)]
    root: String,
    /// The rounds before this one
    #[arg(long)]
    history: PathBuf,
    /// The seed of this round
    #[arg(long)]
    seed: u64,
    /// By which door the round's operations come
    #[arg(long, value_enum, default_value_t = Door::Run)]
    door: Door,
}

#[derive(Subcommand)]
enum Action {
    /// Issue operations, reporting each on standard output
    Write {
        #[command(flatten)]
        place: Where,
        /// How many
        #[arg(long)]
        operations: u64,
        /// A directory to publish notes in meanwhile
        #[arg(long, requires = "notes")]
        shared: Option<String>,
        /// The program's number and its first note's, as `0-17`
        #[arg(long, value_parser = note)]
        notes: Option<Note>,
    },
    /// Print the operations of a round, a line of JSON each
    List {
        /// The seed of the round
        #[arg(long)]
        seed: u64,
        /// By which door they come
        #[arg(long, value_enum, default_value_t = Door::Run)]
        door: Door,
        /// How many
        #[arg(long)]
        operations: u64,
    },
    /// Print how many notes of each program survived
    VerifyShared {
        /// The directory they share
        #[arg(long)]
        root: String,
        /// For each program, how many notes must be there and how many can be, as `3-4`
        #[arg(long, value_parser = range)]
        published: Vec<Published>,
    },
    /// Print how many operations of the round survived, and whether a part of the next did
    Verify {
        #[command(flatten)]
        place: Where,
        /// At least this many must have
        #[arg(long)]
        acknowledged: u64,
        /// At most this many can have
        #[arg(long)]
        issued: u64,
    },
}

fn main() -> ExitCode {
    // SAFETY: umask cannot fail; modes are to be what the operations say.
    unsafe { libc::umask(0) };
    let result = match Arguments::parse().action {
        Action::Write { place, operations, shared, notes } => load(&place).and_then(|history| {
            let report = &mut std::io::stdout().lock();
            let notes = shared.as_deref().zip(notes);
            writer::write(&place.root, &history, (place.seed, place.door), operations, notes, report)
                .map_err(|error| error.to_string())
        }),
        Action::List { seed, door, operations } => {
            for operation in history::operations(seed, door).take(operations as usize) {
                println!("{}", serde_json::to_string(&operation).expect("an operation has a text form"));
            }
            Ok(())
        }
        Action::VerifyShared { root, published } => shared::verify(&root, &published).map(|survived| {
            let survived: Vec<String> = survived.iter().map(u64::to_string).collect();
            println!("{}", survived.join(" "));
        }),
        Action::Verify { place, acknowledged, issued } => load(&place).and_then(|history| {
            let survived =
                writer::verify(&place.root, &history, (place.seed, place.door), acknowledged, issued)?;
            println!("{survived}");
            Ok(())
        }),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("kill-writer: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn note(text: &str) -> Result<Note, String> {
    text.parse().map_err(|()| "a note is two numbers with a dash between them".to_owned())
}

fn range(text: &str) -> Result<Published, String> {
    let Note { program: acknowledged, number: issued } = note(text)?;
    Ok(Published { acknowledged, issued })
}

fn load(place: &Where) -> Result<History, String> {
    History::load(&place.history).map_err(|error| format!("{}: {error}", place.history.display()))
}
