//! `cuesta destroy`.

use crate::commands::daemons::serve::in_use;
use crate::commands::daemons::stop::stop;
use crate::daemons::daemon::Daemon;
use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::messages::output;
use crate::messages::size::human;
use crate::stores::holder;
use crate::stores::locking;
use crate::stores::owner::become_owner;
use crate::stores::store::{LOG_FILE, Store};
use cuesta_format::geometry::{
    CONFIGURATION_FILE, IDENTITY_FILE, LOCK_FILE, SOCKET_FILE, SUPERBLOCK_FILE, USERS_FOLDER,
};
use cuesta_format::wire::{Request, Response};
use cuesta_sharedfs::trust::{
    self, Freed, Purpose, TIER_NAME, TrustError, TrustedFolder, TrustedStore, free_tier,
};
use cuesta_sharedfs::{Options, read_superblock, remove_lower_tier};
use serde_json::json;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Remove a store and all that is in it.\n\n\
                  Ends its daemon, frees the memory (or the files, or the device's room) of its fast tier, and removes its \
                  directory. On a terminal it asks first; elsewhere it needs --yes. It refuses while the store is mounted or \
                  programs use it, unless --force says otherwise: those programs then get errors. A fast tier that is not \
                  this store's is left alone, and so is any file in the directory that is no part of a store.\n\n\
                  A directory in /dev/shm that an earlier store left there (rm -rf while no daemon ran) can be named, too.",
    after_help = "\
Examples:
  cuesta destroy ~/store                       asks, then removes it
  cuesta destroy --yes ~/store                 for scripts
  cuesta destroy --yes --force ~/store         although programs use it
  cuesta destroy --yes --json ~/store

Exit status: 0 removed, 1 failed or in use, 2 wrong usage."
)]
pub struct Arguments {
    /// The store's directory
    store: PathBuf,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Although it is mounted, or programs use it
    #[arg(long, short)]
    force: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// The parts of a store that were removed, and the files that stayed.
#[derive(Debug, Default)]
struct Removed {
    daemon: Option<u32>,
    unmounted: Vec<PathBuf>,
    tier: Option<PathBuf>,
    /// Folders of lower tiers that were emptied.
    lower: Vec<PathBuf>,
    freed: Freed,
    /// Files there that are no part of the store.
    left: Vec<PathBuf>,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let folder = arguments.store.canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::on(&arguments.store, "no such store"),
        _ => Failure::on(&arguments.store, error),
    })?;
    let has = |name: &str| folder.join(name).symlink_metadata();
    let removed = match (has(CONFIGURATION_FILE), has(SUPERBLOCK_FILE)) {
        (Ok(_), _) => destroy(arguments, &Store::planned(folder.clone())?)?,
        (Err(_), Ok(_)) => destroy_tier(arguments, &folder)?,
        (Err(error), _) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(Failure::on(&folder, "this store belongs to another user"));
        }
        (Err(_), Err(_)) => return Err(Failure::on(&folder, "this is no Cuesta store")),
    };
    output::print(&if arguments.json { as_json(&folder, &removed) } else { as_text(&folder, &removed) })?;
    Ok(ExitCode::SUCCESS)
}

/// A store, whether its fast tier is still there or not.
fn destroy(arguments: &Arguments, store: &Store) -> Result<Removed, Failure> {
    let mut removed = Removed::default();
    if store.is_of_another_user() {
        return Err(Failure::on(store.folder(), "this store belongs to another user"));
    }
    let mounts = cuesta_fuse::mounts().unwrap_or_default();
    let mounted: Vec<PathBuf> = mounts
        .into_iter()
        .filter(|mounted| Path::new(&mounted.source) == store.folder())
        .map(|mounted| mounted.at)
        .collect();
    if !arguments.force {
        refuse_while_used(store, &mounted)?;
    }
    confirm(arguments, store.folder())?;
    // A configuration that cannot be read keeps no store from being removed.
    let lower = Options::load(&store.configuration()).map(|options| options.tier).unwrap_or_default();
    for at in mounted {
        cuesta_fuse::unmount(&at, true).map_err(|error| Failure::on(&at, error))?;
        removed.unmounted.push(at);
    }
    removed.daemon = stop(store)?;
    become_owner(store.folder())?;
    let fail = |error: &dyn std::fmt::Display| Failure::on(store.folder(), error);
    let us = rustix::process::geteuid().as_raw();
    let id = TrustedFolder::open(store.folder(), us).ok().and_then(|folder| trust::store_of(&folder));
    match TrustedStore::open(store.folder(), Purpose::Look) {
        Ok(trusted) => {
            let _lock = locking::take(store, &trusted).map_err(|error| in_use(store, &error))?;
            remove_folder(trusted.folder(), &mut removed).map_err(|error| fail(&error))?;
            let freed = free_tier(trusted.tier(), trusted.identity().store, None);
            removed.freed = freed.map_err(|error| Failure::on(trusted.tier().named(), error))?;
            removed.tier = Some(trusted.tier().named().to_owned());
            remove_name(trusted.folder(), &mut removed).map_err(|error| fail(&error))?;
        }
        Err(TrustError::Missing(path) | TrustError::Type(path)) if path != *store.folder() => {
            remove_without_tier(store, us, &mut removed)?;
        }
        // Nothing that another user, or another store, has there is removed.
        Err(
            TrustError::Owner { path, .. } | TrustError::Foreign(path) | TrustError::Writable { path, .. },
        ) if path != *store.folder() => {
            removed.left.push(path);
            remove_without_tier(store, us, &mut removed)?;
        }
        Err(error) => return Err(fail(&error)),
    }
    for tier in lower.into_values() {
        match id.map(|id| remove_lower_tier(id, &tier)) {
            Some(Ok(())) => removed.lower.push(tier.path),
            // A folder that is not this store's is left alone.
            Some(Err(_)) | None => removed.left.push(tier.path),
        }
    }
    Ok(removed)
}

/// The folder alone.
fn remove_without_tier(store: &Store, us: u32, removed: &mut Removed) -> Result<(), Failure> {
    let folder =
        TrustedFolder::open(store.folder(), us).map_err(|error| Failure::on(store.folder(), error))?;
    remove_folder(&folder, removed)
        .and_then(|()| remove_name(&folder, removed))
        .map_err(|error| Failure::on(store.folder(), error))
}

/// A fast tier whose store's folder was removed.
fn destroy_tier(arguments: &Arguments, folder: &Path) -> Result<Removed, Failure> {
    become_owner(folder)?;
    let us = rustix::process::geteuid().as_raw();
    let fail = |error: &dyn std::fmt::Display| Failure::on(folder, error);
    let tier = TrustedFolder::open(folder, us).map_err(|error| fail(&error))?;
    let superblock = read_superblock(tier.path()).map_err(|error| fail(&error))?;
    if tier.is_locked() {
        return Err(fail(
            &"it is the fast tier of a store that is in use (cuesta destroy STORE removes both)",
        ));
    }
    confirm(arguments, folder)?;
    let freed = free_tier(&tier, superblock.store, None).map_err(|error| fail(&error))?;
    Ok(Removed { tier: Some(folder.to_owned()), freed, ..Removed::default() })
}

fn refuse_while_used(store: &Store, mounted: &[PathBuf]) -> Result<(), Failure> {
    if let Some(at) = mounted.first() {
        let why = format!("it is mounted at {} (cuesta unmount, or --force)", at.display());
        return Err(Failure::on(store.folder(), why));
    }
    let Some(mut daemon) = Daemon::connect(store)? else { return Ok(()) };
    let Ok(Response::Status(status)) = daemon.ask(&Request::Status) else { return Ok(()) };
    // The daemon sees the end of a program a moment later.
    let living = status.sessions.iter().filter(|session| !holder::is_ending(session.pid, store));
    let programs: Vec<String> =
        living.map(|session| format!("{} {}", session.program, session.pid)).collect();
    if programs.is_empty() {
        return Ok(());
    }
    let why = format!("programs use it: {} (end them, or --force)", programs.join(", "));
    Err(Failure::on(store.folder(), why))
}

fn confirm(arguments: &Arguments, folder: &Path) -> Result<(), Failure> {
    if arguments.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let why = "removes all that is in it: say --yes, as there is no terminal to ask on";
        return Err(Failure::on(folder, why).exiting(WRONG_USAGE));
    }
    output::complain(&format!("Remove the store {} and all that is in it? [y/N] ", folder.display()));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match read {
        Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes" | "Yes") => Ok(()),
        _ => Err(Failure::on(folder, "nothing was removed")),
    }
}

/// Removes what a store has in its folder, the configuration first: from then on it is no store, and no daemon comes.
fn remove_folder(folder: &TrustedFolder, removed: &mut Removed) -> io::Result<()> {
    let ours = |name: &str| {
        let plain = name.trim_start_matches('.');
        [CONFIGURATION_FILE, IDENTITY_FILE, LOCK_FILE, SOCKET_FILE, LOG_FILE]
            .iter()
            .any(|part| plain.starts_with(part))
    };
    remove_file(&folder.path().join(CONFIGURATION_FILE))?;
    for entry in std::fs::read_dir(folder.path())? {
        let entry = entry?;
        let name = entry.file_name();
        match (name.to_str(), entry.file_type()?.is_dir()) {
            (Some(TIER_NAME), true) => {}
            (Some(USERS_FOLDER), true) => std::fs::remove_dir_all(entry.path())?,
            (Some(name), false) if name == TIER_NAME || ours(name) => remove_file(&entry.path())?,
            _ => removed.left.push(folder.named().join(name)),
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The folder's own name goes if nothing is left in it.
fn remove_name(folder: &TrustedFolder, removed: &mut Removed) -> io::Result<()> {
    let is_left = removed.left.iter().any(|path| path.starts_with(folder.named()));
    if is_left || !folder.is_at_its_name() {
        return Ok(());
    }
    match std::fs::remove_dir(folder.named()) {
        // It was made by someone else, in a folder of theirs.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            removed.left.push(folder.named().to_owned());
            Ok(())
        }
        done => done,
    }
}

fn as_json(folder: &Path, removed: &Removed) -> String {
    let path = |path: &PathBuf| path.display().to_string();
    let value = json!({
        "store": folder.display().to_string(),
        "stopped_daemon": removed.daemon,
        "unmounted": removed.unmounted.iter().map(path).collect::<Vec<_>>(),
        "fast_tier": removed.tier.as_ref().map(path),
        "lower_tiers": removed.lower.iter().map(path).collect::<Vec<_>>(),
        "freed_bytes": removed.freed.bytes,
        "released_device": removed.freed.device.as_ref().map(path),
        "left": removed.left.iter().map(path).collect::<Vec<_>>(),
    });
    value.to_string() + "\n"
}

fn as_text(folder: &Path, removed: &Removed) -> String {
    let mut text = String::new();
    for at in &removed.unmounted {
        text += &format!("unmounted {}\n", at.display());
    }
    if let Some(pid) = removed.daemon {
        text += &format!("stopped its daemon, process {pid}\n");
    }
    text += &format!("removed {}", folder.display());
    match &removed.tier {
        Some(tier) => text += &format!(": {} freed in {}\n", human(removed.freed.bytes), tier.display()),
        None => text += " (it had no fast tier any more)\n",
    }
    for path in &removed.lower {
        text += &format!("removed its lower tier in {}\n", path.display());
    }
    if let Some(device) = &removed.freed.device {
        text += &format!("{} holds no store any more\n", device.display());
    }
    for path in &removed.left {
        text += &format!("left {}: it is no part of this store\n", path.display());
    }
    text
}
