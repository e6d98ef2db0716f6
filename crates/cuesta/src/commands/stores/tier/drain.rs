//! `cuesta tier drain`.

use super::named::number_of;
use crate::daemons::daemon::Daemon;
use crate::daemons::start;
use crate::messages::failure::Failure;
use crate::messages::output;
use crate::messages::size::human;
use crate::stores::store::Store;
use cuesta_format::wire::{Drained, Refusal, Request, Response, ScrubPlace};
use cuesta_format::{BLOCK_BYTES, TierNumber};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

pub fn execute(store: &Path, name: &str) -> Result<ExitCode, Failure> {
    let store = Store::find(store)?;
    start::ensure(&store)?;
    let mut daemon = Daemon::expect(&store)?;
    let tier = number_of(&mut daemon, name)?;
    let moved = human(drain(&store, &mut daemon, tier, name)? * BLOCK_BYTES);
    output::print(&format!("{name} holds nothing any more; {moved} moved\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Drains a tier until it holds nothing. Answers how many blocks moved.
pub fn drain(store: &Store, daemon: &mut Daemon, tier: TierNumber, name: &str) -> Result<u64, Failure> {
    let mut moved = 0;
    loop {
        // Programs may write to it until they have heard.
        let looked = look_once(daemon, tier, &mut moved)?;
        if looked.blocks_left == 0 {
            return Ok(moved);
        }
        if looked.blocks == 0 || looked.is_full {
            return Err(Failure::on(store.folder(), why(&looked, name)));
        }
    }
}

/// Why the rest stays.
fn why(drained: &Drained, name: &str) -> String {
    let left = human(drained.blocks_left * BLOCK_BYTES);
    let reason = match drained {
        Drained { is_full: true, .. } => "the other tiers are full",
        Drained { blocks_stayed: 1.., .. } => "a part cannot be read (cuesta scrub names the files)",
        Drained { files_pinned: 1.., .. } => "programs map a file; try again when they have ended",
        Drained { files_busy: 1.., .. } => "programs change a file all the time; try again later",
        _ => "programs that run may still write there; try again when they have ended",
    };
    format!("{left} of {name} stay there: {reason}")
}

/// Moves what can be moved, and answers what became of it.
fn look_once(daemon: &mut Daemon, tier: TierNumber, moved: &mut u64) -> Result<Drained, Failure> {
    let (mut all, mut from) = (Drained::default(), Some(ScrubPlace::default()));
    let is_watched = io::stderr().is_terminal();
    while let Some(place) = from {
        match daemon.ask(&Request::Drain { tier, from: place })? {
            Response::Drained(part) => {
                from = part.next;
                *moved += part.blocks;
                all = Drained {
                    blocks: all.blocks + part.blocks,
                    blocks_stayed: all.blocks_stayed + part.blocks_stayed,
                    files_pinned: all.files_pinned + part.files_pinned,
                    files_busy: all.files_busy + part.files_busy,
                    ..part
                };
            }
            Response::Failed(Refusal::Internal(why) | Refusal::Invalid(why)) => {
                return Err(Failure::new(why));
            }
            other => return Err(daemon.unexpected(&other)),
        }
        if is_watched {
            let [done, left] = [*moved, all.blocks_left].map(|blocks| human(blocks * BLOCK_BYTES));
            output::complain(&format!("\r{done} moved, {left} left \x1b[K"));
        }
    }
    if is_watched {
        output::complain("\r\x1b[K");
    }
    Ok(all)
}
