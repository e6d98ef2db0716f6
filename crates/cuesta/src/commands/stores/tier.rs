//! `cuesta tier`: the tiers of a store.

mod add;
mod drain;
mod edited;
pub mod named;
mod remove;
mod stats;

use crate::commands::stores::mkfs::tiers::AskedTier;
use crate::daemons::daemon::Daemon;
use crate::messages::failure::Failure;
use crate::messages::output;
use crate::messages::size::human;
use crate::stores::store::Store;
use clap::Subcommand;
use cuesta_format::BLOCK_BYTES;
use cuesta_format::disk_profile::{DiskProfile, DiskUse};
use cuesta_format::wire::TierStatus;
use cuesta_media::emulate::calibrate_disk::{DiskFigures, DiskRow};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Show the tiers of a store.\n\n\
                  A store has a fast tier, and below it any number of lower ones, which cuesta mkfs --tier makes. Programs write \
                  to the fast tier. Long runs of content go to the tier below, and so does everything while the fast tier is full. \
                  Content that cooled moves down.\n\n\
                  A tier that is drained takes no new content, and its content moves to the other tiers. Programs go on meanwhile. The \
                  next daemon of the store takes the tier for content again. A tier that is removed is drained first, and then \
                  its folder or disk is free for other uses.",
    after_help = "\
Examples:
  cuesta tier list ~/store
  cuesta tier list --json ~/store
  cuesta tier stats ~/store
  cuesta tier add ~/store archive=/mnt/hdd/tier:2T
  cuesta tier drain ~/store disk
  cuesta tier remove ~/store disk

Exit status: 0 done, 1 failed or something stayed, 2 wrong usage, 3 no daemon serves the store."
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the tiers, the fastest first, and how full each is
    List {
        /// The store's directory
        store: PathBuf,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Show how full each tier is, and what came to it and left it since the daemon started
    ///
    /// Content that programs wrote is "written"; all else that came or left was moved: cold, hot, pinned, by hand or drained.
    Stats {
        /// The store's directory
        store: PathBuf,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Add a lower tier below all others
    ///
    /// The store's daemon is replaced for that; programs wait for the next one, and go on.
    Add {
        /// The store's directory
        store: PathBuf,
        /// The tier, as for cuesta mkfs --tier
        #[arg(value_name = "NAME=PATH:SIZE[,profile=PROFILE]")]
        tier: AskedTier,
        /// Take a disk whatever it holds, which is lost
        #[arg(long)]
        overwrite_device: bool,
    },
    /// Take a lower tier out of the store
    ///
    /// All its content moves to the others first. Then the store's daemon is replaced, as for a tier that is added; programs
    /// wait for the next one, and go on. If the command is interrupted, the store opens, and the command goes on when it is given
    /// again.
    Remove {
        /// The store's directory
        store: PathBuf,
        /// The tier, by its name or number
        tier: String,
    },
    /// Move all content of a lower tier to the others
    Drain {
        /// The store's directory
        store: PathBuf,
        /// The tier, by its name or number
        tier: String,
    },
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.action {
        Action::List { store, json } => {
            let mut daemon = Daemon::expect(&Store::find(store)?)?;
            let tiers = named::all(&mut daemon)?;
            output::print(&if *json { as_json(&tiers) } else { as_text(&tiers) })?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Stats { store, json } => stats::execute(store, *json),
        Action::Add { store, tier, overwrite_device } => add::execute(store, tier, *overwrite_device),
        Action::Drain { store, tier } => drain::execute(store, tier),
        Action::Remove { store, tier } => remove::execute(store, tier),
    }
}

fn as_json(tiers: &[TierStatus]) -> String {
    let tiers = tiers.iter().map(|tier| {
        json!({
            "number": tier.number,
            "name": tier.name,
            "path": tier.path,
            "medium": tier.medium,
            "profile": tier.profile.map(|profile| profile.to_string()),
            "figures": tier.profile,
            "disk_use": tier.disk_use,
            "bytes": tier.blocks * BLOCK_BYTES,
            "bytes_used": tier.blocks_used * BLOCK_BYTES,
            "bytes_pinned_outside": tier.blocks_pinned_outside * BLOCK_BYTES,
            "draining": tier.draining,
            "removing": tier.removing,
            "missing": tier.missing,
            "failed": tier.failed,
        })
    });
    json!({ "tiers": tiers.collect::<Vec<_>>() }).to_string() + "\n"
}

/// What a program gets of it, as far as that is asked for.
fn told(profile: DiskProfile) -> String {
    let asked = DiskFigures::of(profile);
    let rows = DiskRow::ALL.into_iter().map(|row| (row, row.of(&asked))).filter(|(_, value)| *value != 0);
    let parts: Vec<String> =
        rows.map(|(row, value)| format!("{} {}", row.title(), row.written(value))).collect();
    parts.join(", ")
}

fn as_text(tiers: &[TierStatus]) -> String {
    let rows: Vec<Vec<String>> = tiers
        .iter()
        .map(|tier| {
            vec![
                tier.number.to_string(),
                tier.name.clone(),
                tier.medium.to_string(),
                human(tier.blocks_used * BLOCK_BYTES),
                human(tier.blocks * BLOCK_BYTES),
                tier.path.clone(),
            ]
        })
        .collect();
    let mut text = output::table(&["tier", "name", "medium", "used", "of", "place"], &rows);
    for tier in tiers {
        if let Some(profile) = &tier.profile {
            text += &format!("  {} plays {profile}: {}\n", tier.name, told(*profile));
            if let Some(DiskUse { reads, writes, flushes }) = tier.disk_use {
                text += &format!("    it saw {reads} reads, {writes} writes, {flushes} flushes\n");
            }
        }
        if tier.blocks_pinned_outside > 0 {
            let outside = human(tier.blocks_pinned_outside * BLOCK_BYTES);
            text += &format!("  {outside} pinned to {} lie elsewhere: it has no room for them\n", tier.name);
        }
        if tier.removing {
            text += &format!("  {} is being taken out: cuesta tier remove goes on with that\n", tier.name);
        } else if tier.draining {
            text += &format!("  {} is drained: no new content goes there until the next start\n", tier.name);
        }
        if let Some(why) = &tier.missing {
            text += &format!("  {} is missing, and reading what lies there fails: {why}\n", tier.name);
        }
        if let Some(why) = &tier.failed {
            text += &format!("  {} failed, and is only read until the next start: {why}\n", tier.name);
        }
    }
    text
}
