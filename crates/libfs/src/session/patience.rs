//! Connecting to a daemon that may not listen yet: how long, how often, and how to start one.

use crate::errno::Error;
use rustix::thread::{Timespec, nanosleep};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a call waits for the next daemon: a service manager, or an upgrade, takes a few seconds.
pub const RESUME_WAIT: Duration = Duration::from_secs(30);

/// The pause between two attempts to connect: at first, and after many.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The function that starts a daemon, if the door can. It answers whether a daemon listens now.
#[derive(Default)]
pub(crate) struct Starter(pub(crate) OnceLock<Box<dyn Fn() -> bool + Send + Sync>>);

impl std::fmt::Debug for Starter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Starter").field(&self.0.get().is_some()).finish()
    }
}

/// Tries `connect` for as long as `patience` says, until a daemon listens.
pub fn patiently<T>(patience: Duration, mut connect: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let (began, mut pause) = (Instant::now(), PAUSE_MIN);
    loop {
        match connect() {
            Err(Error::Disconnected) if began.elapsed() < patience => {}
            connected => return connected,
        }
        // The standard library's sleep is a cancellation point, and this must not be one.
        let _ = nanosleep(&Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() });
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
