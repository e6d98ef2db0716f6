//! `cuesta migrate`.

use super::named::NamedFile;
use crate::commands::stores::tier::named::number_of;
use crate::daemons::daemon::Daemon;
use crate::daemons::start;
use crate::messages::failure::Failure;
use crate::messages::output;
use crate::messages::size::human;
use cuesta_format::wire::{Migrated, MigrationPlace, Refusal, Request, Response};
use cuesta_format::{BLOCK_BYTES, TierNumber};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// Something stayed where it was.
const STAYED: u8 = 2;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Move the content of a file, or of all files in a directory, to a tier.\n\n\
                  Programs may read and write the files meanwhile. Files that programs map stay where they are. What is written to \
                  the files later is placed as all content is.",
    after_help = "\
Examples:
  cuesta migrate --to disk ~/files/archive            where the store is mounted at ~/files
  cuesta migrate --to fast --store ~/store /cuesta/my.db
  cuesta migrate --to fast --copy ~/files/index          makes it fast to read until the room is needed
  cuesta migrate --to 1 --store ~/store --json .         all that the store holds

Exit status: 0 all of it lies there, 1 failed, or there is no such file or tier, 2 some of it stayed where it was."
)]
pub struct Arguments {
    #[command(flatten)]
    file: NamedFile,
    /// The tier, by its name or number (cuesta tier list)
    #[arg(long, value_name = "TIER")]
    to: String,
    /// Leave the content where it is, and copy it to the fast tier; a copy goes when it is written over, when the room is needed, and with the
    /// daemon
    #[arg(long)]
    copy: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (store, path) = arguments.file.find()?;
    start::ensure(&store)?;
    let mut daemon = Daemon::expect(&store)?;
    let tier = number_of(&mut daemon, &arguments.to)?;
    let all = move_all(&mut daemon, &path, tier, arguments)?;
    output::print(&if arguments.json { as_json(&all) } else { as_text(&all, arguments) })?;
    Ok(if is_whole(&all) { ExitCode::SUCCESS } else { ExitCode::from(STAYED) })
}

fn move_all(
    daemon: &mut Daemon,
    inner: &[u8],
    tier: TierNumber,
    arguments: &Arguments,
) -> Result<Migrated, Failure> {
    let (is_copy, shown) = (arguments.copy, &arguments.file.path);
    let (mut all, mut from) = (Migrated::default(), Some(MigrationPlace::default()));
    let is_watched = io::stderr().is_terminal();
    while let Some(place) = from.take() {
        match daemon.ask(&Request::Migrate { path: inner.to_vec(), tier, is_copy, from: place })? {
            Response::Migrated(part) => {
                from = part.next;
                all.files += part.files;
                all.blocks += part.blocks;
                all.blocks_stayed += part.blocks_stayed;
                all.files_pinned += part.files_pinned;
                all.files_busy += part.files_busy;
                all.is_full |= part.is_full;
            }
            Response::Failed(Refusal::NotFound) => {
                return Err(Failure::on(shown, "no such file in the store"));
            }
            other => return Err(daemon.unexpected(&other)),
        }
        if is_watched {
            let (moved, done) = (human(all.blocks * BLOCK_BYTES), done(arguments));
            output::complain(&format!("\r{} files looked at, {moved} {done} ", all.files));
        }
    }
    if is_watched {
        output::complain("\r\x1b[K");
    }
    Ok(all)
}

fn is_whole(all: &Migrated) -> bool {
    !all.is_full && all.files_pinned + all.files_busy + all.blocks_stayed == 0
}

fn as_json(all: &Migrated) -> String {
    let value = json!({
        "files": all.files,
        "bytes_moved": all.blocks * BLOCK_BYTES,
        "bytes_stayed": all.blocks_stayed * BLOCK_BYTES,
        "files_pinned": all.files_pinned,
        "files_busy": all.files_busy,
        "is_full": all.is_full,
    });
    value.to_string() + "\n"
}

fn done(arguments: &Arguments) -> &'static str {
    if arguments.copy { "copied" } else { "moved" }
}

fn as_text(all: &Migrated, arguments: &Arguments) -> String {
    let mut text = format!(
        "{} file{}, {} {} to {}\n",
        all.files,
        if all.files == 1 { "" } else { "s" },
        human(all.blocks * BLOCK_BYTES),
        done(arguments),
        arguments.to,
    );
    if all.is_full {
        text += "  it is full: the rest stayed where it is\n";
    }
    if all.files_pinned > 0 {
        text += &format!("  {} stayed, because programs map them\n", all.files_pinned);
    }
    if all.files_busy > 0 {
        text += &format!("  {} stayed in part, because programs changed them all the time\n", all.files_busy);
    }
    if all.blocks_stayed > 0 {
        let stayed = human(all.blocks_stayed * BLOCK_BYTES);
        text += &format!("  {stayed} stayed, because they cannot be read (cuesta scrub)\n");
    }
    text
}
