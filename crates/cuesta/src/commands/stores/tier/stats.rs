//! `cuesta tier stats`.

use crate::daemons::daemon::Daemon;
use crate::messages::failure::Failure;
use crate::messages::output;
use crate::messages::size::human;
use crate::stores::store::Store;
use cuesta_format::BLOCK_BYTES;
use cuesta_format::wire::{MoveCause, Request, Response, TierStats};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::ExitCode;

pub fn execute(store: &Path, is_json: bool) -> Result<ExitCode, Failure> {
    let mut daemon = Daemon::expect(&Store::find(store)?)?;
    let stats = match daemon.ask(&Request::TierStats)? {
        Response::TierStats(stats) => stats,
        other => return Err(daemon.unexpected(&other)),
    };
    output::print(&if is_json { as_json(&stats) } else { as_text(&stats) })?;
    Ok(ExitCode::SUCCESS)
}

fn bytes(blocks: u64) -> u64 {
    blocks * BLOCK_BYTES
}

fn as_json(stats: &[TierStats]) -> String {
    let tiers = stats.iter().map(|TierStats { tier, level, low_mark_percent, bad_blocks, moves }| {
        let of_cause = |cause: &str, came: u64, left: u64| {
            (cause.replace(' ', "_"), json!({ "bytes_in": bytes(came), "bytes_out": bytes(left) }))
        };
        let moves: Map<String, Value> = moves
            .iter()
            .map(|moves| of_cause(moves.cause.told(), moves.blocks_in, moves.blocks_out))
            .collect();
        json!({
            "number": tier.number,
            "name": tier.name,
            "bytes": bytes(tier.blocks),
            "bytes_used": bytes(tier.blocks_used),
            "bytes_free": bytes(tier.blocks.saturating_sub(tier.blocks_used)),
            "bytes_pinned_outside": bytes(tier.blocks_pinned_outside),
            "moves": moves,
            "level": level,
            "low_mark_percent": low_mark_percent,
            "bad_blocks": bad_blocks,
            "disk_use": tier.disk_use,
            "draining": tier.draining,
            "removing": tier.removing,
            "missing": tier.missing,
            "failed": tier.failed,
        })
    });
    json!({ "tiers": tiers.collect::<Vec<_>>() }).to_string() + "\n"
}

fn as_text(stats: &[TierStats]) -> String {
    let row = |stats: &TierStats| {
        let TierStats { tier, level, low_mark_percent, bad_blocks, moves } = stats;
        let written = moves.iter().filter(|moves| moves.cause == MoveCause::Digest);
        let others = || moves.iter().filter(|moves| moves.cause != MoveCause::Digest);
        vec![
            tier.name.clone(),
            human(bytes(tier.blocks_used)),
            human(bytes(tier.blocks.saturating_sub(tier.blocks_used))),
            human(bytes(written.map(|moves| moves.blocks_in).sum())),
            human(bytes(others().map(|moves| moves.blocks_in).sum())),
            human(bytes(others().map(|moves| moves.blocks_out).sum())),
            level.clone().unwrap_or_else(|| "-".into()),
            low_mark_percent.map_or_else(|| "-".into(), |percent| format!("{percent} %")),
            bad_blocks.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = stats.iter().map(row).collect();
    let heads = ["tier", "used", "free", "written", "in", "out", "level", "low mark", "bad blocks"];
    let mut text = output::table(&heads, &rows);
    for TierStats { tier, moves, .. } in stats {
        for moves in moves.iter().filter(|moves| moves.cause != MoveCause::Digest) {
            text += &format!(
                "  {}, {}: {} in, {} out\n",
                tier.name,
                moves.cause.told(),
                human(bytes(moves.blocks_in)),
                human(bytes(moves.blocks_out))
            );
        }
        if let Some(why) = tier.missing.as_ref().or(tier.failed.as_ref()) {
            let state = if tier.missing.is_some() { "is missing" } else { "failed" };
            text += &format!("  {} {state}: {why}\n", tier.name);
        }
    }
    text
}
