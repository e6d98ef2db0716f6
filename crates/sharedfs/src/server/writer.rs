//! The writing thread: in optimistic mode the disk takes all logs again and again, and no program waits for that.
//!
//! The core says how long to wait from one cut to the next. While there is nothing to write, the thread sleeps until a
//! session kicks. It watches the kicks for itself: the digest thread may be busy for longer than the bound.

use super::service::Service;
use super::stopping::{StopReason, StopSender};
use cuesta_format::SessionId;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Kicks taken from the kernel at once; which they were does not matter.
const EVENTS_MAX: usize = 64;
/// The number of the eventfd that stops the thread: no session has it.
const WAKE: u64 = 0;

#[derive(Debug)]
struct Shared {
    watched: OwnedFd,
    wake: OwnedFd,
    stop: AtomicBool,
}

/// Tells the writing thread of sessions.
#[derive(Clone, Debug)]
pub(super) struct WriterHandle {
    shared: Arc<Shared>,
}

impl WriterHandle {
    /// A kick of this session wakes the thread.
    pub(super) fn watch(&self, session: SessionId, kick: impl AsFd) -> Result<(), Errno> {
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&self.shared.watched, kick, EventData::new_u64(session.0), flags)
    }

    /// The session ends.
    pub(super) fn forget(&self, kick: impl AsFd) {
        let _ = epoll::delete(&self.shared.watched, kick);
    }
}

/// The writing thread.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start<S: Service>(service: Arc<S>, failed: StopSender) -> io::Result<Writer> {
        let watched = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&watched, &wake, EventData::new_u64(WAKE), EventFlags::IN | EventFlags::ET)?;
        let shared = Arc::new(Shared { watched, wake, stop: AtomicBool::new(false) });
        let thread = Builder::new().name("write".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                if let Err(errno) = run(&shared, service.as_ref()) {
                    // If the channel is closed, the daemon is leaving already.
                    let _ = failed.send(StopReason::Failed(format!("no log is written any more: {errno}")));
                }
            }
        })?;
        Ok(Writer { shared, thread })
    }

    /// For connections.
    pub(super) fn handle(&self) -> WriterHandle {
        WriterHandle { shared: Arc::clone(&self.shared) }
    }

    /// Ends the thread after its current work.
    pub(super) fn stop(self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Err(error) = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes()) {
            tracing::error!(%error, "cannot wake the writing thread");
            return;
        }
        if self.thread.join().is_err() {
            tracing::error!("the writing thread had panicked");
        }
    }
}

fn run<S: Service>(shared: &Shared, service: &S) -> Result<(), Errno> {
    let is_stopped = || shared.stop.load(Ordering::Acquire);
    while !is_stopped() {
        // Sessions see a failure at their next fsync, and ask why.
        match service.write_logs().unwrap_or(None) {
            Some(pause) => rest(shared, pause)?,
            None => {
                wait(shared, None)?;
                if let Some(pause) = service.before_writing() {
                    rest(shared, pause)?;
                }
            }
        }
    }
    Ok(())
}

/// Waits until the time is up. Kicks meanwhile make no difference.
fn rest(shared: &Shared, pause: Duration) -> Result<(), Errno> {
    let end = Instant::now() + pause;
    while !shared.stop.load(Ordering::Acquire) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        wait(shared, Some(left))?;
    }
    Ok(())
}

/// Waits for a kick.
fn wait(shared: &Shared, limit: Option<Duration>) -> Result<(), Errno> {
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    match epoll::wait(&shared.watched, rustix::buffer::spare_capacity(&mut events), limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
