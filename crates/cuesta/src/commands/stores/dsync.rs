//! `cuesta dsync`.

use crate::daemons::daemon::Daemon;
use crate::daemons::start;
use crate::messages::failure::Failure;
use crate::stores::mounts;
use crate::stores::store::Store;
use cuesta_format::wire::{Request, Response};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Wait until the disk has everything that was done in a store.\n\n\
                  That covers every call that had returned before this command began, of any program. In optimistic mode \
                  fsync does not wait for the disk, and this is how a script does. In pessimistic mode it covers calls without \
                  fsync, too. On memory and pmem there is nothing to wait for.\n\n\
                  A program waits by the call cuesta_dsync of cuesta.h, or of cuesta.py.",
    after_help = "\
Examples:
  cuesta dsync ~/store
  cuesta dsync ~/files/project          the store that is mounted there
  CUESTA_STORE=~/store cuesta dsync

Exit status: 0 the disk has everything; 1 it does not, or the command failed."
)]
pub struct Arguments {
    /// The store's directory, or a path on its mount [default: $CUESTA_STORE, or the one that is mounted]
    place: Option<PathBuf>,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let store = match &arguments.place {
        None => Store::find_named(None)?,
        Some(place) => Store::find(place).or_else(|_| mounts::store_of(None, place))?,
    };
    // A daemon that has ended may have left logs, which the next one writes.
    start::ensure(&store)?;
    let mut daemon = Daemon::expect(&store)?;
    match daemon.ask(&Request::Dsync)? {
        Response::Done => Ok(ExitCode::SUCCESS),
        other => Err(daemon.unexpected(&other)),
    }
}
