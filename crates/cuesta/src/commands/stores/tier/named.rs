//! The tiers of a store, as its daemon tells them, by their names.

use crate::daemons::daemon::Daemon;
use crate::messages::failure::Failure;
use cuesta_format::TierNumber;
use cuesta_format::wire::{Request, Response, TierStatus};

/// The tiers of the store, the fast one first.
pub fn all(daemon: &mut Daemon) -> Result<Vec<TierStatus>, Failure> {
    match daemon.ask(&Request::Status)? {
        Response::Status(status) => Ok(status.tiers),
        other => Err(daemon.unexpected(&other)),
    }
}

/// The tier with that name or number.
pub fn number_of(daemon: &mut Daemon, name: &str) -> Result<TierNumber, Failure> {
    let tiers = all(daemon)?;
    match tiers.iter().find(|tier| tier.name == name || tier.number.to_string() == name) {
        Some(tier) => Ok(tier.number),
        None => {
            let names: Vec<&str> = tiers.iter().map(|tier| tier.name.as_str()).collect();
            let why = format!("{name}: the store has no such tier; it has {}", names.join(", "));
            Err(Failure::new(why))
        }
    }
}
