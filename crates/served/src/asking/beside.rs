//! The connection of a process that has one session from its start to its end, such as a mount's: made when the session
//! first sends something, and kept.
//!
//! It knows no files. So the next daemon need be shown none.

use crate::asking::client::{Client, Holder};
use crate::asking::open_file::OpenFile;
use crate::asking::shipper::{ByChannel, Channel};
use crate::protocol::call::OwnSession;
use cuesta_format::LogDependency;
use cuesta_libfs::{Credentials, Observed};
use cuesta_media::clock;
use parking_lot::Mutex;
use rustix::fd::BorrowedFd;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// If no connection can be made, the session does everything itself for so long.
const PAUSE_MS: u64 = 1000;

/// A session's connection.
#[derive(Debug)]
struct Beside {
    own: Arc<Own>,
    connection: OnceLock<Client>,
    connecting: Mutex<()>,
    not_before_ms: AtomicU64,
}

/// The session, and where the daemon listens for its connection.
struct Own {
    path: Vec<u8>,
    session: Weak<cuesta_libfs::Client>,
    observed: Observed,
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Own").field("observed", &self.observed).finish_non_exhaustive()
    }
}

/// From now on `session` sends operations by a connection to the socket at `path`.
pub fn ship_beside(session: &Arc<cuesta_libfs::Client>, path: Vec<u8>) {
    let own = Own { path, session: Arc::downgrade(session), observed: Observed::new() };
    let (connection, connecting) = (OnceLock::new(), Mutex::new(()));
    let beside = Beside { own: Arc::new(own), connection, connecting, not_before_ms: AtomicU64::new(0) };
    session.ship_by(Box::new(ByChannel(beside)));
}

impl OwnSession for Own {
    fn undurable_end(&self) -> Option<LogDependency> {
        self.session.upgrade()?.undurable_end()
    }

    fn note(&self, seen: LogDependency) {
        self.observed.note(seen);
    }
}

impl Holder for Own {
    fn path(&self) -> Vec<u8> {
        self.path.clone()
    }

    fn show(&self, _: &mut dyn FnMut(&OpenFile, BorrowedFd<'_>)) {}

    fn start_daemon(&self) -> bool {
        self.session.upgrade().is_some_and(|session| session.start_daemon())
    }
}

impl Beside {
    #[cold]
    fn connect(&self) -> Option<&Client> {
        if clock::milliseconds() < self.not_before_ms.load(Ordering::Relaxed) {
            return None;
        }
        let _connecting = self.connecting.lock();
        if let Some(connection) = self.connection.get() {
            return Some(connection);
        }
        match Client::connect(&self.own.path, 0) {
            Ok(client) => {
                let client = client.held_by(self.own.clone()).beside(self.own.clone());
                Some(self.connection.get_or_init(|| client))
            }
            Err(error) => {
                tracing::debug!(%error, "operations are not sent for now");
                self.not_before_ms.store(clock::milliseconds() + PAUSE_MS, Ordering::Relaxed);
                None
            }
        }
    }
}

impl Channel for Beside {
    fn connection(&self) -> Option<impl Deref<Target = Client>> {
        self.connection.get().or_else(|| self.connect())
    }

    fn connection_for(&self, _: &Credentials) -> Option<impl Deref<Target = Client>> {
        // The connection is for all users of the mount.
        None::<&Client>
    }

    fn observed(&self) -> &Observed {
        &self.own.observed
    }
}
