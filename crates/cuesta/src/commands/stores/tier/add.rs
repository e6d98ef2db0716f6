//! `cuesta tier add`.

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
use std::fs::File;
use std::io::Write as _;
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
    let mut options = Options::load(&configuration).map_err(|error| Failure::on(store.folder(), error))?;
    if options.tier.contains_key(asked.name()) {
        let why = format!("the store has a tier called {} already", asked.name());
        return Err(Failure::on(store.folder(), why).exiting(WRONG_USAGE));
    }
    let [tier] = planned(std::slice::from_ref(asked), &status.geometry, overwrites_device)?
        .into_values()
        .map(|tier| LowerTier { number: options.tier.len() as u8 + 1, ..tier })
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| Failure::on(store.folder(), "one tier was asked for"))?;
    let added = BTreeMap::from([(asked.name().to_owned(), tier.clone())]);
    options.tier.extend(added.clone());
    let text = std::fs::read_to_string(&configuration).map_err(|error| Failure::on(&configuration, error))?
        + &configuration::tiers_template(&added);
    Options::parse(&text).map_err(|error| Failure::on(&configuration, error))?;
    create_lower_tier(status.store, &tier).map_err(|error| Failure::on(&tier.path, error))?;
    replace(&configuration, &text).map_err(|error| Failure::on(&configuration, error))?;
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

/// Replaces the text of a file, so that a crash leaves one or the other.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("toml.new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
