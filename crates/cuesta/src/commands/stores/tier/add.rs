//! `cuesta tier add`.

use super::edited::{Edited, replace};
use crate::commands::daemons::stop::stop;
use crate::commands::stores::mkfs::tiers::{AskedTier, planned};
use crate::daemons::daemon::Daemon;
use crate::daemons::start;
use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::messages::output;
use crate::messages::size::human;
use crate::stores::store::Store;
use cuesta_format::wire::{Request, Response};
use cuesta_sharedfs::{LowerTier, Options, configuration, create_lower_tier};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

pub fn execute(store: &Path, asked: &AskedTier, overwrites_device: bool) -> Result<ExitCode, Failure> {
    let store = Store::find(store)?;
    start::ensure(&store)?;
    let status = match Daemon::expect(&store)?.ask(&Request::Status)? {
        Response::Status(status) => status,
        other => return Err(Failure::on(store.folder(), format!("answered with {other:?}"))),
    };
    let configuration = store.configuration();
    let edited = Edited::read(&configuration)?;
    if edited.options.tier.contains_key(asked.name()) {
        let why = format!("the store has a tier called {} already", asked.name());
        return Err(Failure::on(store.folder(), why).exiting(WRONG_USAGE));
    }
    let [tier] = planned(std::slice::from_ref(asked), &status.geometry, overwrites_device)?
        .into_values()
        .map(|tier| LowerTier { number: edited.next_number(), ..tier })
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| Failure::on(store.folder(), "one tier was asked for"))?;
    let added = BTreeMap::from([(asked.name().to_owned(), tier.clone())]);
    let text = edited.text + &configuration::tiers_template(&added);
    Options::parse(&text).map_err(|error| Failure::on(&configuration, error))?;
    create_lower_tier(status.store, &tier).map_err(|error| Failure::on(&tier.path, error))?;
    replace(&configuration, &text)?;
    stop(&store)?;
    start::ensure(&store)?;
    output::print(&format!(
        "added {}: tier {} in {}, with room for {}\n",
        asked.name(),
        tier.number,
        tier.path.display(),
        human(tier.bytes)
    ))?;
    Ok(ExitCode::SUCCESS)
}
