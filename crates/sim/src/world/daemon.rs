//! The daemon of a world: SharedFS in this process. One that is mortal can be killed behind any store, flush or fence it
//! makes; the next one takes its place, and sessions go on with that.
//!
//! Each request to a mortal daemon is served by a thread of its own. Where it is killed that thread stands, with all it
//! holds, and goes on when everything is over: so nothing is put in order that a kill leaves as it is.

use cuesta_format::SessionId;
use cuesta_format::wire::{Request, Response};
use cuesta_libfs::{Link, LinkError};
use cuesta_media::{install_fault_handler, recorder};
use cuesta_sharedfs::{Options, SharedFs};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

thread_local!(static IN_DAEMON: Cell<bool> = const { Cell::new(false) });

/// Whether the calling thread is in the daemon now, which in another process would be another thread.
pub fn in_daemon() -> bool {
    IN_DAEMON.get()
}

/// The daemon of the moment.
pub(super) struct Daemon {
    current: Mutex<Arc<SharedFs>>,
    mortal: Option<Mortal>,
}

/// Keeps a daemon where it is, with those before it that were killed, while this lives.
pub struct HeldDaemon(#[expect(dead_code, reason = "it is held")] Arc<Daemon>);

impl HeldDaemon {
    pub(super) fn new(daemon: &Arc<Daemon>) -> HeldDaemon {
        HeldDaemon(Arc::clone(daemon))
    }
}

struct Mortal {
    directory: PathBuf,
    options: Options,
    /// Events until it is killed; none: it is not.
    left: Arc<AtomicU64>,
    killed: Mutex<Vec<Killed>>,
}

/// The rest of a daemon that was killed.
struct Killed {
    _shared: Arc<SharedFs>,
    lets_go: Sender<()>,
    stands: JoinHandle<()>,
}

/// What becomes of a request.
enum Told {
    Answered(Box<Response>, Vec<OwnedFd>),
    Killed,
}

/// A process that lives as long as this one and is another: its sessions outlive a daemon of this process.
fn other_process() -> Result<u32, String> {
    static OTHER: OnceLock<Result<Child, String>> = OnceLock::new();
    // It ends when the pipe closes, which happens with this process.
    let start = || Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let other = OTHER.get_or_init(|| start().map_err(|error| format!("cat: {error}")));
    other.as_ref().map(Child::id).map_err(Clone::clone)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    /// One that lives as long as the world.
    pub(super) fn of(shared: Arc<SharedFs>) -> Daemon {
        Daemon { current: Mutex::new(shared), mortal: None }
    }

    /// One that can be killed.
    pub(super) fn mortal(directory: &Path, options: Options) -> Result<Daemon, String> {
        other_process()?;
        // A thread that goes on when all is over finds files that are shorter now.
        install_fault_handler();
        let shared = SharedFs::open(directory, options.clone()).map_err(|error| format!("open: {error}"))?;
        let mortal = Mortal {
            directory: directory.to_owned(),
            options,
            left: Arc::default(),
            killed: Mutex::default(),
        };
        Ok(Daemon { current: Mutex::new(shared), mortal: Some(mortal) })
    }

    pub(super) fn current(&self) -> Arc<SharedFs> {
        Arc::clone(&lock(&self.current))
    }

    pub(super) fn is_mortal(&self) -> bool {
        self.mortal.is_some()
    }

    /// It is killed behind so many events from now on.
    pub(super) fn kill_behind(&self, events: u64) {
        if let Some(mortal) = &self.mortal {
            mortal.left.store(events, Ordering::Relaxed);
        }
    }

    /// Whether one was killed.
    pub(super) fn was_killed(&self) -> bool {
        self.mortal.as_ref().is_some_and(|mortal| !lock(&mortal.killed).is_empty())
    }

    fn handle(
        &self,
        connected: &Arc<SharedFs>,
        session: SessionId,
        request: &Request,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, LinkError> {
        if !Arc::ptr_eq(&lock(&self.current), connected) {
            return Err(LinkError::Gone("killed".into()));
        }
        match &self.mortal {
            Some(mortal) => mortal.handle(&self.current, connected, session, request, descriptors),
            None => {
                IN_DAEMON.set(true);
                let response = connected.handle(session, request, descriptors);
                IN_DAEMON.set(false);
                Ok(response)
            }
        }
    }
}

impl Mortal {
    fn handle(
        &self,
        current: &Mutex<Arc<SharedFs>>,
        connected: &Arc<SharedFs>,
        session: SessionId,
        request: &Request,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, LinkError> {
        let mut request = request.clone();
        if let Request::Attach { pid, .. } = &mut request {
            *pid = other_process().map_err(LinkError::Garbled)?;
        }
        let (tells, told) = channel();
        let (lets_go, waits) = channel::<()>();
        let (shared, left) = (Arc::clone(connected), Arc::clone(&self.left));
        let mut given = std::mem::take(descriptors);
        let thread = std::thread::spawn(move || {
            IN_DAEMON.set(true);
            let stands = tells.clone();
            recorder::follow_each_event(Some(Box::new(move || {
                let one_less =
                    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                if one_less == Ok(1) {
                    // The receiver is gone if all has failed already; and it waits until all senders are gone.
                    let _ = stands.send(Told::Killed);
                    let _ = waits.recv();
                }
            })));
            let response = shared.handle(session, &request, &mut given);
            recorder::follow_each_event(None);
            let _ = tells.send(Told::Answered(Box::new(response), given));
        });
        match told.recv() {
            Ok(Told::Answered(response, given)) => {
                *descriptors = given;
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                Ok(*response)
            }
            Ok(Told::Killed) => {
                let killed = Killed { _shared: Arc::clone(connected), lets_go, stands: thread };
                lock(&self.killed).push(killed);
                let next = SharedFs::open(&self.directory, self.options.clone());
                *lock(current) =
                    next.map_err(|error| LinkError::Garbled(format!("the next one: {error}")))?;
                Err(LinkError::Gone("killed".into()))
            }
            Err(_) => match thread.join() {
                Ok(()) => Err(LinkError::Garbled("no answer".into())),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        for Killed { _shared, lets_go, stands } in lock(&self.killed).drain(..) {
            drop(lets_go);
            // Its findings are not used any more.
            let _ = stands.join();
        }
    }
}

/// A link that is a function call.
pub(super) struct InProcess {
    daemon: Arc<Daemon>,
    connected: Arc<SharedFs>,
    session: Arc<AtomicU64>,
}

impl InProcess {
    pub(super) fn to(daemon: &Arc<Daemon>, session: &Arc<AtomicU64>) -> InProcess {
        InProcess { connected: daemon.current(), daemon: Arc::clone(daemon), session: Arc::clone(session) }
    }
}

impl Link for InProcess {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        let session = SessionId(self.session.load(Ordering::Relaxed));
        let response = self.daemon.handle(&self.connected, session, request, descriptors)?;
        if let Response::Attached(welcome) = &response {
            self.session.store(welcome.session.0, Ordering::Relaxed);
        }
        Ok(response)
    }

    fn reconnect(&mut self) -> Result<bool, LinkError> {
        self.connected = self.daemon.current();
        Ok(self.daemon.is_mortal())
    }
}
