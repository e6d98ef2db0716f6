//! The digest thread: sleeps until a session kicks or the logs were left alone for a while, then digests.
//!
//! [`crate::policy`] says which logs are due. The kick is an eventfd that the client holds too, and could make
//! blocking: so it is never read here. An edge-triggered watch reports every write to it once.

use super::preparer::PreparerHandle;
use super::service::Service;
use super::stopping::{StopReason, StopSender};
use super::writer::WriterHandle;
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
use std::time::Duration;

/// Kicks taken from the kernel at once; which they were does not matter.
const EVENTS_MAX: usize = 64;
/// After a digest the logs are looked at once more so much later, kick or not. A client kicks when it finds that
/// its log was clean. One that appends at the very moment a digest is published may find it dirty, while its entry
/// was not yet seen here.
const SECOND_LOOK: Duration = Duration::from_millis(100);
/// The number of the eventfd that stops the thread: no session has it.
const WAKE: u64 = 0;

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
    writer: WriterHandle,
}

impl DigesterHandle {
    /// Digests `session` from now on when its client kicks; or, if it is awaited, ends it when its process ends.
    pub(super) fn watch(&self, session: SessionId, kick: OwnedFd) -> Result<(), Errno> {
        let mut kicks = self.shared.kicks.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&self.shared.watched, &kick, EventData::new_u64(session.0), flags)?;
        self.writer.watch(session, &kick)?;
        if let Some(process) = kicks.insert(session, kick) {
            let _ = epoll::delete(&self.shared.watched, &process);
            self.writer.forget(&process);
        }
        Ok(())
    }

    /// The session ends.
    pub(super) fn forget(&self, session: SessionId) {
        let mut kicks = self.shared.kicks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kick) = kicks.remove(&session) {
            // The client's copies keep the eventfd alive: without this it would be watched for good.
            let _ = epoll::delete(&self.shared.watched, &kick);
            self.writer.forget(&kick);
        }
    }
}

/// The digest thread.
#[derive(Debug)]
pub(super) struct Digester {
    shared: Arc<Shared>,
    writer: WriterHandle,
    thread: JoinHandle<()>,
}

impl Digester {
    /// Starts the thread. Connections tell `writer` of sessions by its handle, too. The thread has `preparer` replace what its digests use up. When the store fails under it, it asks through `failed` that the daemon stops.
    pub(super) fn start<S: Service>(
        service: Arc<S>,
        preparer: PreparerHandle,
        writer: WriterHandle,
        failed: StopSender,
    ) -> io::Result<Digester> {
        let watched = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&watched, &wake, EventData::new_u64(WAKE), EventFlags::IN | EventFlags::ET)?;
        let shared =
            Arc::new(Shared { watched, wake, kicks: Mutex::default(), stop: AtomicBool::new(false) });
        let thread = Builder::new().name("digest".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                if let Err(why) = run(&shared, service.as_ref(), &preparer) {
                    tracing::error!(%why, "nothing is digested any more");
                    // If the channel is closed, the daemon is leaving already.
                    let _ = failed.send(StopReason::Failed(why));
                }
            }
        })?;
        Ok(Digester { shared, writer, thread })
    }

    /// For connections.
    pub(super) fn handle(&self) -> DigesterHandle {
        DigesterHandle { shared: Arc::clone(&self.shared), writer: self.writer.clone() }
    }

    /// Ends the thread after its current work.
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

fn run<S: Service>(shared: &Shared, service: &S, preparer: &PreparerHandle) -> Result<(), String> {
    let mut idle = false;
    let mut look_again = false;
    while !shared.stop.load(Ordering::Acquire) {
        if service.digest(idle).map_err(|error| error.to_string())? {
            look_again = true;
            // Entries that came meanwhile are left alone for a while, too: a session that writes all the
            // time would be digested all the time.
            idle = false;
            preparer.wake();
            continue;
        }
        let limit = service.idle_after();
        let limit = limit.or(look_again.then_some(SECOND_LOOK));
        idle = !kicked(shared, service, limit).map_err(|errno| errno.to_string())?;
        if !idle {
            // A session that has much to be tidied up after kicks, too.
            preparer.wake();
        }
        // No session kicked for a while: if there is nothing now, there is nothing until one does.
        look_again &= !idle;
    }
    Ok(())
}

/// Waits for a kick; `false`: the time was up first.
fn kicked<S: Service>(shared: &Shared, service: &S, limit: Option<Duration>) -> Result<bool, Errno> {
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
    let limit = limit.map(timespec);
    match epoll::wait(&shared.watched, rustix::buffer::spare_capacity(&mut events), limit.as_ref()) {
        Ok(_) => {
            events.iter().filter(|event| event.data.u64() != WAKE).for_each(|event| {
                service.kicked(SessionId(event.data.u64()));
            });
            Ok(!events.is_empty())
        }
        Err(Errno::INTR) => Ok(true),
        Err(errno) => Err(errno),
    }
}

fn timespec(limit: Duration) -> Timespec {
    Timespec { tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: limit.subsec_nanos().into() }
}
