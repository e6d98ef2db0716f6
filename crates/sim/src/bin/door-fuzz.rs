//! Compares the preload door with the disk by random system calls; and is the players of that.

use clap::{Parser, Subcommand};
use cuesta_sim::door_fuzz::campaign::{self, CALLS, Report};
use cuesta_sim::door_fuzz::enclosure;
use cuesta_sim::door_fuzz::fixture::Directories;
use cuesta_sim::door_fuzz::player::{self, SLOWLY};
use cuesta_sim::door_fuzz::players::Players;
use cuesta_sim::door_fuzz::sequence::Call;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    about = "Makes random system calls under `cuesta run` and on a disk, and compares answers and effects"
)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Args)]
struct Where {
    /// The command under test [default: beside this program]
    #[arg(long)]
    cuesta: Option<PathBuf>,
    /// A folder on ext4 [default: that of temporary files]
    #[arg(long)]
    disk: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Action {
    /// Play sequences of many seeds
    Campaign {
        #[command(flatten)]
        at: Where,
        /// Calls in all
        #[arg(long, default_value_t = 1_000_000)]
        calls: u64,
        /// The first seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// End after so many kinds of differences
        #[arg(long, default_value_t = 20)]
        kinds: usize,
    },
    /// Play a list of calls from a file and show both transcripts
    Replay {
        #[command(flatten)]
        at: Where,
        /// One call a line, as a campaign prints them
        list: PathBuf,
    },
    /// Run a command that can change nothing of the machine but what is below folders (used by the other actions)
    #[command(hide = true)]
    Enclosed {
        root: PathBuf,
        #[arg(long = "folder")]
        folders: Vec<PathBuf>,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Be a player (started by the other actions)
    #[command(hide = true)]
    Play { inside: String, outside: String },
}

impl Where {
    fn players(&self) -> io::Result<Players> {
        let fuzzer = std::env::current_exe()?;
        let cuesta = self.cuesta.clone().unwrap_or_else(|| fuzzer.with_file_name("cuesta"));
        let disk = self.disk.clone().unwrap_or_else(std::env::temp_dir);
        Players::new(&cuesta, &fuzzer, &disk)
    }
}

fn replay(at: &Where, list: &PathBuf) -> io::Result<bool> {
    let text = std::fs::read_to_string(list)?;
    let slowly = text.lines().any(|line| line == SLOWLY);
    let lines = text.lines().filter(|line| !line.trim().is_empty() && *line != SLOWLY);
    let calls: Result<Vec<Call>, String> = lines.map(str::parse).collect();
    let transcripts = at.players()?.play(&calls.map_err(io::Error::other)?, slowly)?;
    println!("on the disk:\n{}\nby the door:\n{}", transcripts.disk, transcripts.door);
    let compared = campaign::compare(&transcripts);
    if let Some(difference) = &compared.difference {
        println!(
            "DIFFERENT: {}\non the disk:\n{}by the door:\n{}",
            difference.kind, difference.disk, difference.door
        );
    }
    Ok(compared.difference.is_none())
}

fn act(action: &Action) -> io::Result<bool> {
    match action {
        Action::Campaign { at, calls, seed, kinds } => {
            let seeds = *seed..seed + calls.div_ceil(CALLS as u64);
            println!("seeds {seeds:?}, {CALLS} calls each");
            let report: Report =
                campaign::run(&mut at.players()?, seeds, *kinds, &mut |found| println!("{found}"))?;
            print!("{report}");
            Ok(report.found.is_empty())
        }
        Action::Replay { at, list } => replay(at, list),
        Action::Enclosed { root, folders, command } => {
            let programs = std::env::current_exe()?.parent().map(PathBuf::from).unwrap_or_default();
            enclosure::enter(root, folders, &programs)?;
            let (program, arguments) = command.split_first().ok_or_else(|| io::Error::other("no command"))?;
            Err(std::process::Command::new(program).args(arguments).exec())
        }
        Action::Play { inside, outside } => {
            player::main(&Directories { inside: inside.clone(), outside: outside.clone() })?;
            Ok(true)
        }
    }
}

fn main() -> ExitCode {
    match act(&Arguments::parse().action) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("door-fuzz: {error}");
            ExitCode::from(2)
        }
    }
}
