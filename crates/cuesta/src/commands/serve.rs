//! `cuesta serve`: the daemon.

use crate::commands::calibrate;
use crate::failure::{Failure, WRONG_USAGE};
use crate::own_program;
use crate::start::{Outcome, Told};
use crate::store::Store;
use cuesta_served::StartError;
use cuesta_sharedfs::server::{Listener, LockError, Server, StopReason, StoreLock};
use cuesta_sharedfs::{Options, SharedFs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracing::level_filters::LevelFilter;

/// The variable that says how much the daemon tells.
const LOG_VARIABLE: &str = "CUESTA_LOG";

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Serve a store in the foreground.\n\n\
                  Recovers what programs and an earlier daemon left when they were killed, then serves until \
                  SIGTERM, SIGINT or `cuesta stop`. `cuesta run` starts a daemon by itself; serve is for \
                  service managers and for watching.",
    after_help = "\
Examples:
  cuesta serve ~/store
  CUESTA_LOG=debug cuesta serve ~/store        tells more (error, warn, info, debug, trace)

Exit status: 0 stopped in order; 1 failed, or the store is in use."
)]
pub struct Arguments {
    /// The store's directory
    store: PathBuf,
    /// Where to say that the daemon serves, or why not: an inherited descriptor
    #[arg(long, hide = true)]
    tell_descriptor: Option<RawFd>,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    prepare_log(arguments.tell_descriptor.is_some())?;
    // Before it is adopted: a copy inherits it, too.
    own_program::settle();
    let told = Told::adopt(arguments.tell_descriptor);
    match start(&arguments.store) {
        Ok((server, users, lock)) => {
            told.say(&Outcome::Ready);
            let reason = server.wait();
            if let Some(users) = users {
                users.stop();
            }
            // It goes with the process: until then threads of connections may still read and write the store.
            std::mem::forget(lock);
            match reason {
                StopReason::Failed(why) => Err(Failure::on(&arguments.store, why)),
                StopReason::Asked(_) | StopReason::Signal(_) => Ok(ExitCode::SUCCESS),
            }
        }
        Err(Refusal { failure, in_use }) => {
            let why = failure.to_string();
            told.say(&if in_use { Outcome::InUse(why) } else { Outcome::Failed(why) });
            Err(failure)
        }
    }
}

/// Why the store is not served.
struct Refusal {
    failure: Failure,
    in_use: bool,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal { failure, in_use: false }
    }
}

fn start(folder: &Path) -> Result<(Server<SharedFs>, Option<cuesta_served::Server>, StoreLock), Refusal> {
    let store = Store::find(folder)?;
    let fail = |error: &dyn std::fmt::Display| Failure::on(store.folder(), error);
    let options = Options::load(&store.configuration()).map_err(|error| Failure::new(error.to_string()))?;
    allow_descriptors();
    // Before the store takes long to recover, so that a signal then is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| fail(&error))?;
    let lock = StoreLock::take(&store.lock()).map_err(|error| Refusal {
        failure: in_use(&store, &error),
        in_use: matches!(error, LockError::Held { .. }),
    })?;
    let listener = Listener::bind(&store.socket()).map_err(|error| fail(&error))?;
    let asked = options.emulate;
    let shared = SharedFs::open(&store.tier(), options).map_err(|error| fail(&error))?;
    // Told and not refused: what a medium does is not the same each day, and files have to be reached.
    if let Err(why) = calibrate::refuse_faster(&store.tier(), shared.superblock().medium, asked) {
        tracing::warn!(%why, emulate = %asked, "a medium is played, and not all of it is obtained");
    }
    let recovered = *shared.recovered();
    // Before anybody is answered: who was told that the store is served finds this socket, too. Without it, other users'
    // programs are told that the store is not served to them.
    let not_served = |error: &StartError| tracing::warn!(%error, "other users are not served");
    let users = cuesta_served::Listener::bind(&store.users_folder()).inspect_err(not_served).ok();
    let server = Server::start(shared, listener).map_err(|error| fail(&error))?;
    let stop = server.stop_sender();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // An error means that the daemon is stopping already.
                let _ = stop.send(StopReason::Signal(signal));
            }
        })
        .map_err(|error| fail(&error))?;
    let users = users.and_then(|listener| {
        cuesta_served::Server::start(listener, &store.socket(), &store.tier()).inspect_err(not_served).ok()
    });
    tracing::info!(
        store = %store.folder().display(),
        recovered_sessions = recovered.sessions,
        recovered_entries = recovered.entries,
        recovery_ms = recovered.milliseconds,
        "serving"
    );
    Ok((server, users, lock))
}

/// What a lock that cannot be had means to the user.
pub fn in_use(store: &Store, error: &LockError) -> Failure {
    match error {
        LockError::Held { .. } => {
            Failure::on(store.folder(), format!("{error} (cuesta stop ends a daemon in order)"))
        }
        LockError::File { .. } => Failure::new(error.to_string()),
    }
}

/// Every session takes some descriptors.
pub fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "few programs can attach at once: the limit of open files cannot be raised");
    }
}

/// What is told goes to standard error. A level that does not exist is refused, or in the background told and passed over, so that
/// the store is served.
pub fn prepare_log(in_background: bool) -> Result<(), Failure> {
    let asked = std::env::var_os(LOG_VARIABLE).filter(|text| !text.is_empty());
    let level = asked.as_ref().and_then(|text| text.to_str()?.parse().ok());
    let unknown = asked.filter(|_| level.is_none()).map(|text| {
        format!(
            "{LOG_VARIABLE}={}: there is no such level (error, warn, info, debug, trace, off)",
            text.display()
        )
    });
    if let Some(unknown) = &unknown
        && !in_background
    {
        return Err(Failure::new(unknown).exiting(WRONG_USAGE));
    }
    tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::INFO))
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .with_writer(std::io::stderr)
        // Where the log cannot be written, nobody can be told so, and the daemon goes on without.
        .log_internal_errors(false)
        .init();
    if let Some(unknown) = unknown {
        tracing::warn!("{unknown}; info is used");
    }
    Ok(())
}
