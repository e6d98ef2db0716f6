//! The preparing thread: makes segments and arenas' memory ready ahead of need, so that no session waits for the
//! kernel to clear pages.
//!
//! It works beside the digest thread and not between its batches: a log that is written without a pause leaves the digest
//! thread no time for anything else. What to make, and how much ahead, is the core's to say.
//!
//! When nothing was taken for a while it tidies up, a little at a time, until there is nothing left to do.

use super::service::Service;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Nothing was taken for so long: nobody needs anything.
const QUIET: Duration = Duration::from_millis(50);
/// From one thing tidied up to the next.
const PAUSE: Duration = Duration::from_millis(5);

/// Tidies up for as long as nothing is taken. Says whether something was.
fn tidy<S: Service>(service: &S) -> bool {
    let mut pause = QUIET;
    loop {
        let began = Instant::now();
        std::thread::park_timeout(pause);
        if began.elapsed() < pause {
            return true;
        }
        match service.tidy() {
            Ok(true) => pause = PAUSE,
            Ok(false) => return false,
            Err(error) => {
                tracing::warn!(%error, "cannot tidy up");
                return false;
            }
        }
    }
}

/// The preparing thread.
#[derive(Debug)]
pub(super) struct Preparer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Preparer {
    /// Starts the thread.
    pub(super) fn start<S: Service>(service: Arc<S>) -> io::Result<Preparer> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = Builder::new().name("prepare".into()).spawn({
            let stop = Arc::clone(&stop);
            move || {
                while !stop.load(Ordering::Acquire) {
                    match service.prepare() {
                        Ok(true) => continue,
                        Ok(false) => {}
                        // Whoever needs it will make it, or be told why not.
                        Err(error) => tracing::warn!(%error, "nothing can be made ready"),
                    }
                    if !tidy(service.as_ref()) {
                        std::thread::park();
                    }
                }
            }
        })?;
        Ok(Preparer { stop, thread })
    }

    /// To unpark when something that was ready was taken.
    pub(super) fn handle(&self) -> Thread {
        self.thread.thread().clone()
    }

    /// Ends the thread after what it is at.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the preparing thread had panicked");
        }
    }
}
