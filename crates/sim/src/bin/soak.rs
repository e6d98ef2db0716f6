//! Has real programs of two users work on one store while anything is killed, and reads everything again.

use clap::Parser;
use cuesta_sim::doors::{Doors, why_no_mount};
use cuesta_sim::soak::{Installed, Interruption, Soak};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

#[derive(Parser)]
#[command(
    about = "Has real programs of two users work on one store for as long as is wished, kills programs and the daemon, \
             and checks with a manifest outside the store that all that was acknowledged is there"
)]
struct Arguments {
    /// How long in all; the round under way then is finished
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// How long programs work in a round, before everything ends and is read again
    #[arg(long, default_value_t = 12.0)]
    round_seconds: f64,
    /// Repeats a soak [default: another each time]
    #[arg(long)]
    seed: Option<u64>,
    /// By which doors programs come to the store
    #[arg(long, value_enum, default_value_t)]
    doors: Doors,
    /// The command under test [default: beside this program]
    #[arg(long)]
    cuesta: Option<PathBuf>,
    /// Where stores are made; on a disk they are of medium block [default: in memory]
    #[arg(long, value_name = "DIR")]
    stores: Option<PathBuf>,
    /// Remove the store of a failure, too
    #[arg(long)]
    remove: bool,
}

/// The status that a shell gives to a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// How a soak ended that nothing was wrong with.
enum Ended {
    InTime,
    Interrupted,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(Ended::InTime) => ExitCode::SUCCESS,
        Ok(Ended::Interrupted) => {
            eprintln!("soak: interrupted; nothing is left of it");
            ExitCode::from(INTERRUPTED)
        }
        Err(reason) => {
            eprintln!("soak: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Ended, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let cuesta = arguments.cuesta.clone().unwrap_or_else(|| here.with_file_name("cuesta"));
    let seconds = |seconds: f64, of: &str| {
        Duration::try_from_secs_f64(seconds).map_err(|_| format!("{of}: no such length of time"))
    };
    let work = seconds(arguments.round_seconds, "--round-seconds")?;
    let in_all = seconds(arguments.minutes * 60.0, "--minutes")?;
    let seed = arguments.seed.unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(1, |since| since.as_secs())
    });
    if let Some(why) = why_no_mount().filter(|_| arguments.doors.has_mount()) {
        return Err(format!("no mount can be made here: {why}"));
    }
    let interruption = Interruption::listen().map_err(|error| error.to_string())?;
    let soak = Soak::new(&Installed { cuesta, stores: arguments.stores.clone() }, seed, arguments.doors);
    if interruption.came() {
        interruption.end();
        return Ok(Ended::Interrupted);
    }
    let mut soak = soak.map_err(|error| format!("no store: {error}"))?;
    let lanes: Vec<&str> = soak.lanes().collect();
    println!("seed {seed}, in {}: {}", soak.folder().display(), lanes.join(", "));
    let began = Instant::now();
    let mut rounds = 0;
    while began.elapsed() < in_all {
        let outcome = soak.round(work);
        if interruption.came() {
            interruption.end();
            return Ok(Ended::Interrupted);
        }
        if let Err(failure) = outcome {
            let kept = (!arguments.remove).then(|| soak.keep()).and_then(Result::ok);
            let kept = kept.map_or(String::new(), |path| format!("\nkept in {}", path.display()));
            return Err(format!("{failure}{kept}"));
        }
        rounds += 1;
        let counted = soak.counted();
        println!(
            "{} of {} s, {rounds} rounds: {} faults, {} programs started, {} steps acknowledged, all there",
            began.elapsed().as_secs(),
            in_all.as_secs(),
            counted.faults,
            counted.programs,
            counted.acknowledged
        );
    }
    Ok(Ended::InTime)
}
