//! `cuesta serve`: the daemon.

use crate::commands::stores::calibrate;
use crate::daemons::own_program;
use crate::daemons::start::{Outcome, Told};
use crate::messages::failure::Failure;
use crate::messages::log;
use crate::stores::device;
use crate::stores::guard::Guarded;
use crate::stores::locking;
use crate::stores::store::Store;
use cuesta_served::{FirstCallCounter, StartError};
use cuesta_sharedfs::configuration::UserLimits;
use cuesta_sharedfs::server::{Listener, LockError, Server, StopReason, StoreLock};
use cuesta_sharedfs::trust::{self, Purpose, TrustedStore};
use cuesta_sharedfs::{Options, SharedFs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// All other users together may have as much as so many of them.
const USERS: u64 = 4;

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
    log::prepare(&arguments.store, arguments.tell_descriptor.is_some())?;
    // Before it is adopted: a copy inherits it, too.
    own_program::settle();
    let told = Told::adopt(arguments.tell_descriptor);
    // A daemon that was started in the background is started again by the process that did.
    let is_patient = arguments.tell_descriptor.is_none();
    match start(&arguments.store, is_patient) {
        Ok(Serving { server, users, guarded }) => {
            told.say(&Outcome::Ready);
            let reason = server.wait();
            guarded.release();
            if let Some(users) = users {
                users.stop();
            }
            if matches!(reason, StopReason::Removed) {
                free(&guarded.trusted);
            }
            // It goes with the process: until then threads of connections may still read and write the store.
            std::mem::forget(guarded);
            match reason {
                StopReason::Failed(why) => Err(Failure::on(&arguments.store, why)),
                StopReason::Asked(_) | StopReason::Signal(_) | StopReason::Removed => Ok(ExitCode::SUCCESS),
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

/// A daemon at work.
struct Serving {
    server: Server<SharedFs>,
    users: Option<cuesta_served::Server>,
    guarded: Arc<Guarded>,
}

/// SharedFS knows which processes have sessions, and the service for processes without one what these ask.
struct FirstCalls(Weak<SharedFs>);

impl FirstCallCounter for FirstCalls {
    fn begin(&self, process: u32) -> Option<u64> {
        self.0.upgrade()?.begin_first_calls(process)
    }

    fn note_call(&self, ticket: u64) -> bool {
        self.0.upgrade().is_some_and(|shared| shared.note_first_call(ticket))
    }

    fn end(&self, ticket: u64) {
        if let Some(shared) = self.0.upgrade() {
            shared.end_first_calls(ticket);
        }
    }
}

/// Frees what lies elsewhere of a store that was removed.
fn free(trusted: &TrustedStore) {
    match trust::free_tier(trusted.tier(), trusted.identity().store, None) {
        Ok(freed) => tracing::info!(bytes = freed.bytes, "the removed store's fast tier is freed"),
        Err(error) => {
            let tier = trusted.tier().named().display();
            tracing::error!(%error, %tier, "the removed store's fast tier stays: cuesta destroy removes it");
        }
    }
}

fn start(folder: &Path, is_patient: bool) -> Result<Serving, Refusal> {
    let store = Store::find(folder)?;
    // As root may: the store's user may not.
    allow_descriptors();
    let trusted = store.open_trusted(Purpose::Serve)?;
    let fail =
        |error: &dyn std::fmt::Display| Failure::on(store.folder(), trusted.worded(&error.to_string()));
    // Whatever has the names of the two folders from now on: all that is opened lies in those that were checked.
    let (place, tier) = (Store::anchored(&trusted), trusted.tier());
    let options = Options::load(&place.configuration())
        .map_err(|error| Failure::new(trusted.worded(&error.to_string())))?;
    // Before the store takes long to recover, so that a signal then is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| fail(&error))?;
    let taken = if is_patient { locking::take(&store, &trusted) } else { StoreLock::take(&trusted) };
    let lock = taken.map_err(|error| Refusal {
        failure: in_use(&store, &error),
        in_use: matches!(error, LockError::Held { .. }),
    })?;
    let listener = Listener::bind(&place.socket()).map_err(|error| fail(&error))?;
    let asked = options.emulate;
    let limits = limits(&options.users);
    let shared = SharedFs::open_named(tier.path(), tier.named(), options).map_err(|error| fail(&error))?;
    // Told and not refused: a medium is not as fast each day, and files have to be reached.
    if let Err(why) = calibrate::refuse_faster(tier.path(), shared.superblock().medium, asked) {
        tracing::warn!(%why, emulate = %asked, "a medium is played, and not all of it is obtained");
    }
    let recovered = *shared.recovered();
    // Before the daemon answers anything: a process that was told that the store is served finds this socket, too. Without it, other users'
    // programs are told that the store is not served to them.
    let not_served = |error: &StartError| tracing::warn!(%error, "other users are not served");
    let users = cuesta_served::Listener::bind(&place.users_folder()).inspect_err(not_served).ok();
    // So is the store's number there when the first program asks for it.
    if let Err(error) = device::publish(&trusted) {
        tracing::warn!(%error, "the store's device number cannot be told to programs");
    }
    let first_calls = Arc::new(FirstCalls(Arc::downgrade(&shared)));
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
        cuesta_served::Server::start_within(limits, listener, &place.socket(), tier.path(), first_calls)
            .inspect_err(not_served)
            .ok()
    });
    tracing::info!(
        store = %store.folder().display(),
        recovered_sessions = recovered.sessions,
        recovered_entries = recovered.entries,
        recovery_ms = recovered.milliseconds,
        "serving"
    );
    let guarded = Guarded::new(trusted, lock);
    if let Err(error) = guarded.watch(server.stop_sender()) {
        tracing::warn!(%error, "the store's folder is not watched: a daemon whose store is removed goes on");
    }
    Ok(Serving { server, users, guarded })
}

/// The failure that tells the user about a lock that cannot be had.
pub fn in_use(store: &Store, error: &LockError) -> Failure {
    match error {
        LockError::Held { .. } => {
            Failure::on(store.folder(), format!("{error} (cuesta stop ends a daemon in order)"))
        }
        LockError::File { .. } => Failure::new(error.to_string()),
    }
}

/// What other users may have of this daemon.
fn limits(users: &UserLimits) -> cuesta_served::Limits {
    let UserLimits { connections, open_files, message_bytes, message_seconds } = *users;
    cuesta_served::Limits {
        connections_of_user: connections,
        connections: USERS * connections,
        files_of_user: open_files,
        files: USERS * open_files,
        message_bytes_of_user: message_bytes,
        message_bytes: USERS * message_bytes,
        half_message: Duration::from_secs(message_seconds),
        descriptors: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        ..cuesta_served::Limits::default()
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
