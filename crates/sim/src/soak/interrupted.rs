//! Being told to end (SIGINT, SIGTERM, SIGHUP): nothing that was started is left behind, nor the store.
//!
//! A soak waits for processes most of the time, all of them its own or its descendants', which become its children when
//! their parent ends. So they are killed, again and again, by a thread of its own: every awaited process comes to an
//! end, and calls that began meanwhile fail. Then the soak ends as ever.

use crate::programs::processes::{KILL_EVERY, end_descendants, kill_descendants};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Listens for these signals.
pub struct Interruption {
    came: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    killer: Option<JoinHandle<()>>,
}

impl Interruption {
    /// Takes the signals from now on. Started programs get them as ever.
    pub fn listen() -> io::Result<Interruption> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let (came, is_over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let killer = std::thread::Builder::new().name("interruption".into()).spawn({
            let (came, is_over) = (Arc::clone(&came), Arc::clone(&is_over));
            move || {
                if signals.forever().next().is_none() {
                    return;
                }
                came.store(true, Ordering::Release);
                while !is_over.load(Ordering::Acquire) {
                    kill_descendants();
                    std::thread::sleep(KILL_EVERY);
                }
            }
        })?;
        Ok(Interruption { came, is_over, killer: Some(killer) })
    }

    /// Whether one came: everything is being killed.
    #[must_use]
    pub fn came(&self) -> bool {
        self.came.load(Ordering::Acquire)
    }

    /// Nothing begins any more. Returns when nothing is left that began, if a signal came.
    pub fn end(mut self) {
        self.is_over.store(true, Ordering::Release);
        if !self.came() {
            return;
        }
        if let Some(killer) = self.killer.take() {
            // One that panicked has killed what it could.
            let _ = killer.join();
        }
        end_descendants();
    }
}
