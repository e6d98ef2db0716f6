//! The digest thread: sleeps until a session kicks or a log has waited long enough, then digests.
//!
//! The kick is an eventfd that the client holds too, and could make blocking: so it is never read here. An
//! edge-triggered watch reports every write to it once.

use super::digest_schedule::DigestSchedule;
use super::service::Service;
use cuesta_format::SessionId;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Marks the thread's own wake-up among the sessions.
const WAKE: u64 = u64::MAX;

/// Kicks taken from the kernel at once.
const EVENTS_MAX: usize = 64;

#[derive(Debug)]
struct Shared {
    watched: OwnedFd,
    wake: OwnedFd,
    kicks: Mutex<HashMap<SessionId, OwnedFd>>,
    stop: AtomicBool,
}

/// Tells the digest thread of sessions.
#[derive(Clone, Debug)]
pub(super) struct DigesterHandle {
    shared: Arc<Shared>,
}

impl DigesterHandle {
    /// Digests `session` from now on whenever its client kicks.
    pub(super) fn watch(&self, session: SessionId, kick: OwnedFd) -> Result<(), Errno> {
        let mut kicks = self.shared.kicks.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&self.shared.watched, &kick, EventData::new_u64(session.0), flags)?;
        kicks.insert(session, kick);
        Ok(())
    }

    /// The session ends.
    pub(super) fn forget(&self, session: SessionId) {
        let mut kicks = self.shared.kicks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kick) = kicks.remove(&session) {
            // The client's copies keep the eventfd alive: without this it would be watched for good.
            let _ = epoll::delete(&self.shared.watched, &kick);
        }
    }
}

/// The digest thread.
#[derive(Debug)]
pub(super) struct Digester {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Digester {
    /// Starts the thread.
    pub(super) fn start<S: Service>(service: Arc<S>) -> io::Result<Digester> {
        let watched = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&watched, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let shared =
            Arc::new(Shared { watched, wake, kicks: Mutex::default(), stop: AtomicBool::new(false) });
        let thread = Builder::new().name("digest".into()).spawn({
            let shared = Arc::clone(&shared);
            move || run(&shared, service.as_ref())
        })?;
        Ok(Digester { shared, thread })
    }

    /// For connections.
    pub(super) fn handle(&self) -> DigesterHandle {
        DigesterHandle { shared: Arc::clone(&self.shared) }
    }

    /// Ends the thread after the batch it is at.
    pub(super) fn stop(self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Err(error) = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes()) {
            tracing::error!(%error, "cannot wake the digest thread");
            return;
        }
        if self.thread.join().is_err() {
            tracing::error!("the digest thread had panicked");
        }
    }
}

fn run<S: Service>(shared: &Shared, service: &S) {
    let mut schedule = DigestSchedule::new(service.kick_bytes(), service.digest_idle());
    let mut events = Vec::with_capacity(EVENTS_MAX);
    loop {
        let wait = schedule.wait(Instant::now());
        events.clear();
        match epoll::wait(
            &shared.watched,
            rustix::buffer::spare_capacity(&mut events),
            wait.map(timespec).as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                // Clients would wait for log space forever: better that the daemon is seen to fail.
                tracing::error!(%error, "the digest thread cannot wait for kicks");
                std::process::abort();
            }
        }
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        for kicked in events.iter().map(|event: &Event| event.data.u64()).filter(|&data| data != WAKE) {
            let session = SessionId(kicked);
            schedule.saw(session, service.pending_bytes(session), Instant::now());
        }
        if let Some(session) = schedule.take(Instant::now()) {
            service.digest_batch(session);
            // Read after the digest was published: a client that appended before it saw that does not kick.
            schedule.saw(session, service.pending_bytes(session), Instant::now());
        }
    }
}

/// Rounded up to whole milliseconds: waking a little early would spin.
fn timespec(wait: Duration) -> Timespec {
    let wait = Duration::from_millis(wait.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX));
    Timespec { tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: wait.subsec_nanos().into() }
}
