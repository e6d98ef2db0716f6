//! `cuesta stop`.

use crate::daemons::daemon::Daemon;
use crate::messages::failure::Failure;
use crate::messages::output;
use crate::stores::holder;
use crate::stores::mounts;
use crate::stores::store::Store;
use cuesta_format::wire::{Request, Response};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Digest everything, then stop the daemon of a store.\n\n\
                  Returns when the daemon has ended. Programs still running on the store wait up to \
                  30 seconds for the next daemon, and go on with it. A mount starts the next one itself as soon as \
                  somebody looks at it: unmount it first (cuesta unmount).",
    after_help = "Example:\n  cuesta stop ~/store\n\nExit status: 0 stopped, or none was running; 1 failed."
)]
pub struct Arguments {
    /// The store's directory
    store: PathBuf,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let store = Store::find(&arguments.store)?;
    let was_running = stop(&store)?.is_some();
    output::print(if was_running { "stopped\n" } else { "no daemon was running\n" })?;
    if was_running && let Some(at) = mounts::place_of(&store) {
        let (folder, at) = (store.folder().display(), output::shell_word(&at));
        output::warning(format!(
            "{folder} is mounted, and the next call there starts its daemon again; to stop it for good: cuesta unmount {at}"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the store's daemon, if one runs, and waits until it has ended. Returns its process id.
pub fn stop(store: &Store) -> Result<Option<u32>, Failure> {
    let Some(mut daemon) = Daemon::connect(store)? else {
        // Its socket may have been removed, or closed already.
        return match holder::daemon_of(store)? {
            Some(holder) => holder.terminate(store).map(Some),
            None => Ok(None),
        };
    };
    let pid = daemon.pid();
    match daemon.ask(&Request::Stop) {
        Ok(Response::Done) => daemon.wait_for_end()?,
        // One of another version need not understand the question, but every one leaves in order at a signal.
        Ok(_) | Err(_) => daemon.terminate()?,
    }
    Ok(pid)
}
