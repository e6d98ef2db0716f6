//! `cuesta tier remove`.
//!
//! | step | a crash behind it leaves |
//! |---|---|
//! | the tier is drained | the store as it was: the next daemon takes the tier for content again |
//! | `cuesta.toml` says `removing` | a store of which no daemon writes to the tier |
//! | the metadata forgets the tier | a store of which no daemon opens the tier |
//! | the daemon stops, and the tier's folder or disk is given back | the same |
//! | `cuesta.toml` has the tier's number alone | a store without the tier |
//!
//! The command goes on where another one ended.

use super::drain::drain;
use super::edited::{Edited, replace};
use super::named;
use crate::commands::daemons::stop::stop;
use crate::daemons::daemon::Daemon;
use crate::daemons::start;
use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::messages::output;
use crate::messages::size::human;
use crate::stores::store::Store;
use cuesta_format::wire::{Refusal, Request, Response};
use cuesta_format::{BLOCK_BYTES, StoreId, TierNumber};
use cuesta_sharedfs::{LowerTier, LowerTierError, remove_lower_tier};
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

pub fn execute(store: &Path, name: &str) -> Result<ExitCode, Failure> {
    let store = Store::find(store)?;
    let configuration = store.configuration();
    let edited = Edited::read(&configuration)?;
    let Some((name, tier)) = edited.tier(name) else {
        let why = match name {
            "fast" | "0" => "the fast tier cannot be taken out".to_owned(),
            _ => {
                let names: Vec<&str> = edited.options.tier.keys().map(String::as_str).collect();
                format!("{name}: the store has no such lower tier; it has {}", names.join(", "))
            }
        };
        return Err(Failure::on(store.folder(), why).exiting(WRONG_USAGE));
    };
    let wrong = |why: String| Failure::on(&configuration, why);
    // Both can be written, or nothing begins.
    let removing = if tier.removing { edited } else { edited.removing(&name).map_err(wrong)? };
    let without = removing.without(&name).map_err(wrong)?;
    start::ensure(&store)?;
    let mut daemon = Daemon::expect(&store)?;
    let id = match daemon.ask(&Request::Status)? {
        Response::Status(status) => status.store,
        other => return Err(daemon.unexpected(&other)),
    };
    let moved = leave(&store, &mut daemon, (&name, &tier), &removing)?;
    drop(daemon);
    stop(&store)?;
    give_back(id, &tier)?;
    replace(&configuration, &without.text)?;
    start::ensure(&store)?;
    output::print(&format!(
        "{name} is no tier of the store any more; {} moved, and {} is free for other uses\n",
        human(moved * BLOCK_BYTES),
        tier.path.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Drains the tier, and has the store forget it. Answers how many blocks moved.
fn leave(
    store: &Store,
    daemon: &mut Daemon,
    (name, tier): (&str, &LowerTier),
    removing: &Edited,
) -> Result<u64, Failure> {
    let number = TierNumber(tier.number);
    if !named::all(daemon)?.iter().any(|known| known.number == number) {
        // A command before this one came as far.
        return Ok(0);
    }
    let mut moved = drain(store, daemon, number, name)?;
    replace(&store.configuration(), &removing.text)?;
    // A daemon that came since the drain, and had not read that line, may have written there.
    *daemon = Daemon::expect(store)?;
    moved += drain(store, daemon, number, name)?;
    match daemon.ask(&Request::ForgetTier { tier: number })? {
        Response::Done => Ok(moved),
        Response::Failed(Refusal::Internal(why) | Refusal::Invalid(why)) => {
            Err(Failure::on(store.folder(), why))
        }
        other => Err(daemon.unexpected(&other)),
    }
}

/// Empties the tier's folder, or its disk, if that is still the tier.
fn give_back(store: StoreId, tier: &LowerTier) -> Result<(), Failure> {
    match remove_lower_tier(store, tier) {
        Ok(()) | Err(LowerTierError::Misplaced { .. }) => Ok(()),
        Err(LowerTierError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::on(&tier.path, error)),
    }
}
