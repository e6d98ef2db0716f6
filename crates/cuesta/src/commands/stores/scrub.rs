//! `cuesta scrub`.

use crate::daemons::daemon::Daemon;
use crate::daemons::start;
use crate::messages::failure::Failure;
use crate::messages::output;
use crate::messages::size::human;
use crate::stores::store::Store;
use cuesta_format::BLOCK_BYTES;
use cuesta_format::wire::{DamagedContent, Request, Response, ScrubPlace, Scrubbed};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

/// Something is damaged.
const DAMAGED: u8 = 2;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Read all content of a store, and compare it with its checksums.\n\n\
                  Programs may go on working meanwhile. What is damaged stays as it is: whoever reads it gets an error \
                  (EIO), until it is written anew or the file is removed. The metadata's checksums are compared \
                  whenever it is read, and all of them by cuesta fsck.",
    after_help = "\
Examples:
  cuesta scrub ~/store
  cuesta scrub --json ~/store

Exit status: 0 all is as it was written, 1 failed, or the store has no checksums, 2 something is damaged."
)]
pub struct Arguments {
    /// The store's directory
    store: PathBuf,
    /// For programs
    #[arg(long)]
    json: bool,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let store = Store::find(&arguments.store)?;
    start::ensure(&store)?;
    let mut daemon = Daemon::expect(&store)?;
    let mut all = Scrubbed::default();
    let mut from = Some(ScrubPlace::default());
    while let Some(place) = from {
        match daemon.ask(&Request::Scrub { from: place })? {
            Response::Scrubbed(part) if !part.checks_content => {
                let why = "has no checksums of content (cuesta mkfs --checksums on makes a store that has)";
                return Err(Failure::on(store.folder(), why));
            }
            Response::Scrubbed(part) => {
                from = part.next;
                if !arguments.json {
                    output::print(&part.damaged.iter().map(line).collect::<String>())?;
                }
                all.files += part.files;
                all.blocks += part.blocks;
                all.bad_blocks = part.bad_blocks;
                all.damaged.extend(part.damaged);
            }
            other => return Err(daemon.unexpected(&other)),
        }
        if from.is_some() && io::stderr().is_terminal() {
            output::complain(&format!("\r{} read", human(all.blocks * BLOCK_BYTES)));
        }
    }
    if io::stderr().is_terminal() {
        output::complain("\r");
    }
    let outcome = if all.damaged.is_empty() { "clean" } else { "damaged" };
    output::print(&if arguments.json { as_json(&all, outcome) } else { as_text(&all, outcome) })?;
    Ok(if all.damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

fn line(damaged: &DamagedContent) -> String {
    let DamagedContent { inode, path, offset, bytes } = damaged;
    let name = match path.as_slice() {
        [] => "(no name)".into(),
        path => String::from_utf8_lossy(path),
    };
    format!("damaged  {name} (inode {inode}): {bytes} bytes from {offset} on\n")
}

fn as_text(all: &Scrubbed, outcome: &str) -> String {
    let read = human(all.blocks * BLOCK_BYTES);
    let mut text = format!("{}: {} files, {read} read\n", output::heading(outcome), all.files);
    if all.bad_blocks > 0 {
        text += &output::bad_blocks(all.bad_blocks);
    }
    text
}

fn as_json(all: &Scrubbed, outcome: &str) -> String {
    let damaged = all.damaged.iter().map(|damaged| {
        json!({
            "inode": damaged.inode,
            "path": String::from_utf8_lossy(&damaged.path),
            "offset": damaged.offset,
            "bytes": damaged.bytes,
        })
    });
    let value = json!({
        "outcome": outcome,
        "files": all.files,
        "bytes": all.blocks * BLOCK_BYTES,
        "bad_blocks": all.bad_blocks,
        "damaged": damaged.collect::<Vec<_>>(),
    });
    value.to_string() + "\n"
}
