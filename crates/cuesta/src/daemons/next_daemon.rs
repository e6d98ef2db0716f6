//! The next daemon, for a mount whose daemon is gone: `cuesta run` starts one with the program it runs, but a process that comes by the
//! mount is no program of ours, and waits in the kernel. So the process of the mount starts it, when a call needs one.
//!
//! Not for a mount that is gone: its last files may be open for long. Where none can be started, the process says so once,
//! and tries again after a while.

use crate::daemons::start::{self, Parent};
use crate::stores::store::Store;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A daemon that could not be started is started no sooner than this again.
const PAUSE: Duration = Duration::from_secs(2);

/// Starts daemons for a mount.
#[derive(Debug)]
pub struct NextDaemon {
    store: Store,
    at: PathBuf,
    parent: Parent,
    failed: Mutex<Option<Failed>>,
}

/// How that went wrong last.
#[derive(Debug)]
struct Failed {
    why: String,
    when: Instant,
}

impl NextDaemon {
    /// For the mount of the store at `at`. By the thread the process began with, which has all processors that it may have.
    pub fn new(store: Store, at: PathBuf) -> NextDaemon {
        NextDaemon { store, at, parent: Parent::staying(), failed: Mutex::default() }
    }

    /// Starts one unless there is one. Says whether there is one now.
    pub fn start(&self) -> bool {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.as_ref().is_some_and(|failed| failed.when.elapsed() < PAUSE) || !self.is_mounted() {
            return false;
        }
        match start::ensure_by(self.parent, &self.store) {
            Ok(()) => {
                tracing::info!(store = %self.store.folder().display(), "calls by the mount go on with the next daemon");
                *failed = None;
            }
            Err(failure) => {
                let why = failure.to_string();
                if failed.as_ref().is_none_or(|failed| failed.why != why) {
                    tracing::error!(why, "calls by the mount wait for a daemon, which it cannot start");
                }
                *failed = Some(Failed { why, when: Instant::now() });
            }
        }
        failed.is_none()
    }

    fn is_mounted(&self) -> bool {
        cuesta_fuse::mounts().is_ok_and(|mounts| mounts.iter().any(|mounted| mounted.at == self.at))
    }
}
