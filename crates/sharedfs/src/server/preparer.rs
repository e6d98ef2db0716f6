//! The preparing thread: makes segments and arenas' memory ready ahead of need, so that no session waits for the
//! kernel to clear pages.
//!
//! It works beside the digest thread and not between its batches: a log that is written without a pause leaves the
//! digest thread no time for anything else. The core says what to make, and how much ahead.
//!
//! It stands back from the daemon's other threads. Clearing memory keeps a processor busy for milliseconds. On one
//! they share, a program that asks for credit would wait for the end of the thread's turn, although it needs only a
//! moment.
//!
//! When nothing was taken for a while it tidies up, a little at a time, until there is nothing left to do.

use super::service::Service;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Nothing was taken for so long: the daemon is idle.
const QUIET: Duration = Duration::from_millis(50);
/// So long the thread sleeps, called or not, when it has found nothing to make. Where sessions take turns it is
/// called thousands of times a second, and prepared memory lasts for longer.
const REST: Duration = Duration::from_millis(2);
/// From one thing tidied up to the next,
const PAUSE: Duration = Duration::from_millis(5);
/// and so many times as long as the last one took. The kernel moves memory that programs use meanwhile: on busy processors it takes a hundred
/// milliseconds for what takes a half of one on idle ones.
const PAUSE_TIMES: u32 = 20;
/// How far the thread stands back.
const NICE: i32 = 10;

/// Wakes the thread. A call while it works is kept: it looks once more before it sleeps.
#[derive(Clone, Debug)]
pub(super) struct PreparerHandle {
    calls: SyncSender<()>,
}

impl PreparerHandle {
    /// Something that was ready was taken, or the thread is to end.
    pub(super) fn wake(&self) {
        // A call that is kept already serves as well, and a thread that is gone needs none.
        let _ = self.calls.try_send(());
    }
}

/// A handle, and the channel the thread waits on.
pub(super) fn calls() -> (PreparerHandle, Receiver<()>) {
    let (calls, called) = mpsc::sync_channel(1);
    (PreparerHandle { calls }, called)
}

/// Tidies up when no thread called for `pause`, for as long as none does, then waits until one does. `false`: none
/// is left to call.
pub(super) fn tidy_until_called<S: Service>(service: &S, called: &Receiver<()>, mut pause: Duration) -> bool {
    loop {
        match called.recv_timeout(pause) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let began = Instant::now();
        match service.tidy() {
            Ok(true) => pause = PAUSE.max(began.elapsed() * PAUSE_TIMES),
            Ok(false) => return called.recv().is_ok(),
            Err(error) => {
                tracing::warn!(%error, "cannot tidy up");
                return called.recv().is_ok();
            }
        }
    }
}

/// The preparing thread.
#[derive(Debug)]
pub(super) struct Preparer {
    stop: Arc<AtomicBool>,
    handle: PreparerHandle,
    thread: JoinHandle<()>,
}

impl Preparer {
    /// Starts the thread.
    pub(super) fn start<S: Service>(service: Arc<S>) -> io::Result<Preparer> {
        let stop = Arc::new(AtomicBool::new(false));
        let (handle, called) = calls();
        let thread = Builder::new().name("prepare".into()).spawn({
            let stop = Arc::clone(&stop);
            move || {
                // For this thread alone: that is what Linux makes of it.
                if let Err(error) = rustix::process::setpriority_process(None, NICE) {
                    tracing::debug!(%error, "the preparing thread keeps its priority");
                }
                while !stop.load(Ordering::Acquire) {
                    match service.prepare() {
                        Ok(true) => continue,
                        Ok(false) => std::thread::sleep(REST),
                        // A session that needs it will make it, or be told why not.
                        Err(error) => tracing::warn!(%error, "nothing can be made ready"),
                    }
                    if !tidy_until_called(service.as_ref(), &called, QUIET) {
                        return;
                    }
                }
            }
        })?;
        Ok(Preparer { stop, handle, thread })
    }

    /// To call when something that was ready was taken.
    pub(super) fn handle(&self) -> PreparerHandle {
        self.handle.clone()
    }

    /// Ends the thread after its current work.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.handle.wake();
        if self.thread.join().is_err() {
            tracing::error!("the preparing thread had panicked");
        }
    }
}
