//! `cuesta pin`.

use super::named::NamedFile;
use crate::daemons::daemon::Daemon;
use crate::daemons::start;
use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::messages::output;
use cuesta_format::wire::{ExplainedPin, PinChange, Refusal, Request, Response};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Pin the content of a file, or of all files in a directory, to a tier.\n\n\
                  Content that is pinned to a tier is brought there, up or down, and no cold content of it moves away. A file without a \
                  pin of its own follows the nearest directory above that has a rule for its name, files that are there already too. \
                  What the tier has no room for stays where it is (cuesta tier list says how much). \
                  Without --to and --none the pin is shown.\n\n\
                  The pin is the extended attribute user.cuesta.tier; a program may set it: a tier's name or number, or a line \
                  PATTERN=TIER for each --glob of a directory.",
    after_help = "\
Examples:
  cuesta pin ~/files/index --to fast                      where the store is mounted at ~/files
  cuesta pin ~/files/db --glob '*.sst' --to disk          files of such names in db, and below it
  cuesta pin --store ~/store /cuesta/index --none
  cuesta pin ~/files/index/7                              the rule that it follows
  setfattr -n user.cuesta.tier -v fast ~/files/index      the same as --to fast

Exit status: 0 done; 1 failed, or there is no such file or tier; 2 wrong usage."
)]
pub struct Arguments {
    #[command(flatten)]
    file: NamedFile,
    /// The tier, by its name or number (cuesta tier list)
    #[arg(long, value_name = "TIER", conflicts_with = "none")]
    to: Option<String>,
    /// Take the pin away; with --glob, that rule
    #[arg(long)]
    none: bool,
    /// Only files of a directory with names that match: * stands for any bytes, ? for one, [a-z] for one of these
    #[arg(long, value_name = "PATTERN")]
    glob: Option<String>,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let Arguments { file, to, none, glob } = arguments;
    if glob.is_some() && to.is_none() && !none {
        return Err(Failure::new("--glob needs --to or --none").exiting(WRONG_USAGE));
    }
    let (store, path) = file.find()?;
    start::ensure(&store)?;
    let mut daemon = Daemon::expect(&store)?;
    if to.is_some() || *none {
        let change = PinChange { pattern: glob.clone(), tier: to.clone() };
        match daemon.ask(&Request::Pin { path, change })? {
            Response::Done => return Ok(ExitCode::SUCCESS),
            Response::Failed(Refusal::NotFound) => return Err(not_found(file)),
            Response::Failed(Refusal::Invalid(why) | Refusal::Internal(why)) => {
                return Err(Failure::on(&file.path, why));
            }
            other => return Err(daemon.unexpected(&other)),
        }
    }
    match daemon.ask(&Request::Explain { path })? {
        Response::Explained(explanation) => {
            output::print(&shown(explanation.pin.as_ref()))?;
        }
        Response::Failed(Refusal::NotFound) => return Err(not_found(file)),
        other => return Err(daemon.unexpected(&other)),
    }
    Ok(ExitCode::SUCCESS)
}

fn not_found(file: &NamedFile) -> Failure {
    Failure::on(&file.path, "no such file in the store")
}

fn shown(pin: Option<&ExplainedPin>) -> String {
    let Some(pin) = pin else { return "not pinned\n".into() };
    if pin.rules.is_empty() { told(pin) + "\n" } else { pin.rules.join("\n") + "\n" }
}

/// The rule that a file follows, in words.
pub fn told(pin: &ExplainedPin) -> String {
    let at = match &pin.at[..] {
        b"" => "the root of the store".to_owned(),
        at => String::from_utf8_lossy(at).into_owned(),
    };
    let Some(rule) = &pin.rule else { return format!("rules for names in it: {}", pin.rules.join(", ")) };
    let tier = rule.rsplit_once('=').map_or(rule.as_str(), |(_, tier)| tier);
    let unknown = if pin.tier.is_none() { ", which the store does not have" } else { "" };
    format!("pinned to {tier}{unknown}: rule {rule} of {at}")
}
