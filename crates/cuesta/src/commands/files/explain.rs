//! `cuesta explain`.

use super::named::NamedFile;
use super::pin::told;
use crate::daemons::daemon::Daemon;
use crate::daemons::start;
use crate::messages::failure::Failure;
use crate::messages::output;
use crate::messages::size::human;
use cuesta_format::wire::{Explanation, LeaseMode, Refusal, Request, Response};
use cuesta_format::{BLOCK_BYTES, FileKind, TierNumber};
use cuesta_media::clock;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show where the blocks of a file lie, and which programs hold the file.\n\n\
                  In a store with several tiers it tells what may move content of the file, and which content moved lately: \
                  the daemon keeps the last moves in memory.\n\n\
                  Has everything digested first that programs wrote so far, so that it tells where that is, too.",
    after_help = "\
Examples:
  cuesta explain --store ~/store /cuesta/my.db
  cuesta explain --store ~/store --json my.db
  cuesta explain ~/files/my.db                       where the store is mounted at ~/files

Exit status: 0 done; 1 failed, or there is no such file."
)]
pub struct Arguments {
    #[command(flatten)]
    file: NamedFile,
    /// For programs
    #[arg(long)]
    json: bool,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (store, path) = arguments.file.find()?;
    start::ensure(&store)?;
    let mut daemon = Daemon::expect(&store)?;
    match daemon.ask(&Request::Explain { path })? {
        Response::Explained(explanation) if arguments.json => {
            output::print(&(as_json(&explanation).to_string() + "\n"))?;
        }
        Response::Explained(explanation) => {
            output::print(&as_text(&arguments.file.path, &explanation))?;
        }
        Response::Failed(Refusal::NotFound) => {
            return Err(Failure::on(&arguments.file.path, "no such file in the store"));
        }
        other => return Err(daemon.unexpected(&other)),
    }
    Ok(ExitCode::SUCCESS)
}

fn kind(mode: u32) -> &'static str {
    match FileKind::from_mode(mode) {
        Some(FileKind::File) => "file",
        Some(FileKind::Directory) => "directory",
        Some(FileKind::Symlink) => "symbolic link",
        Some(FileKind::Fifo) => "named pipe",
        Some(FileKind::Socket) => "socket",
        Some(FileKind::CharacterDevice) => "character device",
        Some(FileKind::BlockDevice) => "block device",
        None => "unknown",
    }
}

fn tier_name(names: &[String], tier: TierNumber) -> &str {
    names.get(usize::from(tier.0)).filter(|name| !name.is_empty()).map_or("unknown", String::as_str)
}

fn as_json(explanation: &Explanation) -> serde_json::Value {
    let Explanation { record, extents, tier_names, target, leases, rules, moves, pin } = explanation;
    json!({
        "kind": kind(record.mode),
        "record": record,
        "extents": extents.iter().map(|extent| json!({
            "file_offset": extent.file_block * BLOCK_BYTES,
            "bytes": u64::from(extent.blocks) * BLOCK_BYTES,
            "tier": tier_name(tier_names, extent.address.tier()),
            "rule": rules.get(usize::from(extent.address.tier().0)),
            "address": extent.address.offset(),
        })).collect::<Vec<_>>(),
        "target": (!target.is_empty()).then(|| String::from_utf8_lossy(target)),
        "pin": pin.as_ref().map(|pin| json!({
            "rule": pin.rule,
            "tier": pin.tier,
            "at": String::from_utf8_lossy(&pin.at),
            "rules": pin.rules,
        })),
        "moves": moves.iter().map(|moved| json!({
            "time_ns": moved.at.0,
            "from": tier_name(tier_names, moved.from),
            "to": tier_name(tier_names, moved.to),
            "bytes": moved.blocks * BLOCK_BYTES,
            "cause": moved.cause.told(),
            "rule": moved.rule,
            "score": moved.score,
        })).collect::<Vec<_>>(),
        "leases": leases.iter().map(|(session, mode)| json!({
            "session": session,
            "write": *mode == LeaseMode::Write,
        })).collect::<Vec<_>>(),
    })
}

/// The rule for content on each tier that the file has some on, and its last moves.
fn rules_and_moves(explanation: &Explanation) -> String {
    let Explanation { extents, tier_names, rules, moves, .. } = explanation;
    let mut text = String::new();
    if tier_names.len() > 1 {
        let tiers: BTreeSet<TierNumber> = extents.iter().map(|extent| extent.address.tier()).collect();
        for tier in tiers {
            let rule = rules.get(usize::from(tier.0)).map_or("", String::as_str);
            text += &format!("  on {}: {rule}\n", tier_name(tier_names, tier));
        }
    }
    for moved in moves {
        let seconds = (clock::now().0 - moved.at.0).max(0) / 1_000_000_000;
        let by = match (&moved.rule[..], &moved.score) {
            ("", _) => String::new(),
            (rule, Some(score)) => format!(", by {rule}: {score}"),
            (rule, None) => format!(", by {rule}"),
        };
        text += &format!(
            "  {seconds} s ago {} moved from {} to {}: {}{by}\n",
            human(moved.blocks * BLOCK_BYTES),
            tier_name(tier_names, moved.from),
            tier_name(tier_names, moved.to),
            moved.cause.told()
        );
    }
    text
}

fn as_text(path: &Path, explanation: &Explanation) -> String {
    let Explanation { record, extents, tier_names, target, leases, pin, .. } = explanation;
    let mut text = format!(
        "{}\n  {}, inode {}, mode {:04o}, owner {}:{}, {} link{}\n",
        output::heading(&path.display().to_string()),
        kind(record.mode),
        record.inode,
        record.mode & 0o7777,
        record.uid,
        record.gid,
        record.links,
        if record.links == 1 { "" } else { "s" },
    );
    match FileKind::from_mode(record.mode) {
        Some(FileKind::Directory) => text += &format!("  {} entries\n", record.size),
        Some(FileKind::Symlink) => text += &format!("  points to {}\n", String::from_utf8_lossy(target)),
        _ => {
            let bytes = record.blocks * BLOCK_BYTES;
            text +=
                &format!("  {} ({} bytes), {} allocated\n", human(record.size), record.size, human(bytes));
        }
    }
    if !extents.is_empty() {
        let rows: Vec<Vec<String>> = extents
            .iter()
            .map(|extent| {
                let bytes = u64::from(extent.blocks) * BLOCK_BYTES;
                vec![
                    (extent.file_block * BLOCK_BYTES).to_string(),
                    human(bytes),
                    tier_name(tier_names, extent.address.tier()).to_owned(),
                    format!("{:#x}", extent.address.offset()),
                ]
            })
            .collect();
        text += &output::table(&["at", "length", "tier", "address"], &rows);
    }
    text += &rules_and_moves(explanation);
    if let Some(pin) = pin {
        text += &format!("  {}\n", told(pin));
    }
    if leases.is_empty() {
        text += "  held by no session\n";
    }
    for (session, mode) in leases {
        let may = if *mode == LeaseMode::Write { "change" } else { "read" };
        text += &format!("  session {session} may {may} it\n");
    }
    text
}
