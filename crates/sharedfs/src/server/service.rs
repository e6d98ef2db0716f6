//! The server's view of the core, and how [`SharedFs`] serves it.

use crate::background::LOOK_EVERY;
use crate::digest::driver::STARVED_PAUSE;
use crate::digest::policy;
use crate::kernel::{KERNEL_TERM, KernelCache};
use crate::store::SessionHandle;
use crate::{Ending, Error, SharedFs};
use cuesta_format::durability::DurabilityWish;
use cuesta_format::wire::{Refusal, Request, Response, Welcome};
use cuesta_format::{InodeNumber, SessionId};
use cuesta_media::emulate::settle;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A response and the descriptors beside it.
#[derive(Debug)]
pub struct Answer {
    /// The message.
    pub response: Response,
    /// What travels along, in order.
    pub descriptors: Vec<OwnedFd>,
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        Answer { response: Response::Failed(refusal), descriptors: Vec::new() }
    }
}

/// A session that has just begun.
#[derive(Debug)]
pub struct Attached {
    /// The session.
    pub session: SessionId,
    /// What its client gets.
    pub answer: Answer,
    /// The eventfd its client raises when its log wants a digest.
    pub kick: OwnedFd,
}

/// The core, as the server sees it. Every call may come from any thread.
pub trait Service: Send + Sync + std::fmt::Debug + 'static {
    /// Begins a session for the process `pid`, which looks at `first` then, and whose calls are as durable as it wishes.
    fn attach(
        &self,
        pid: u32,
        program: &str,
        first: InodeNumber,
        wish: DurabilityWish,
    ) -> Result<Attached, Error>;

    /// Goes on with a session that the process `pid` had with an earlier daemon.
    fn resume(
        &self,
        session: SessionId,
        pid: u32,
        program: &str,
        wish: DurabilityWish,
    ) -> Result<Attached, Error>;

    /// Sessions of an earlier daemon that may be resumed: their processes, which end readable.
    fn awaited(&self) -> Vec<(SessionId, Arc<OwnedFd>)>;

    /// Answers `request` of a session, or of a client without one (`cuesta status` and the like). Never gets
    /// `Attach`, `Detach` or `Stop`, which the server handles.
    fn handle(&self, session: Option<SessionId>, request: &Request) -> Answer;

    /// The connection has sent an answer that may grant leases.
    fn answered(&self, session: Option<SessionId>);

    /// The session is a mount's, of which `device` is a descriptor.
    fn keep_in_kernel(&self, session: Option<SessionId>, device: Option<OwnedFd>) -> Answer;

    /// Digests the rest of a session's log, and ends the session.
    fn end_session(&self, session: SessionId, ending: Ending) -> Result<(), Error>;

    /// Digests a batch of a log that is due (with `idle`: of any that holds something). Says whether there was one.
    fn digest(&self, idle: bool) -> Result<bool, Error>;

    /// Makes one thing ready for later. Says whether there was one to make.
    fn prepare(&self) -> Result<bool, Error>;

    /// In optimistic mode, has the disk take all logs. Answers how long to wait before the next time; `None`: until a
    /// session kicks.
    fn write_logs(&self) -> Result<Option<Duration>, Error>;

    /// A session kicked: how long to wait before logs are written, if they are to be.
    fn before_writing(&self) -> Option<Duration>;

    /// Whether [`Service::write_back_tiers`] has something to do.
    fn has_tiers_below_memory(&self) -> bool;

    /// Waits until content was written to a lower tier below a store in memory, and has its disk take it. Says whether to
    /// call again.
    fn write_back_tiers(&self) -> bool;

    /// The daemon stops: [`Service::write_back_tiers`] returns.
    fn stop_writing_back(&self);

    /// Whether [`Service::migrate_some`] has something to do.
    fn migrates(&self) -> bool;

    /// Moves some cold content down if a tier is too full, and waits until more is to move. Says whether to call again.
    fn migrate_some(&self) -> bool;

    /// The daemon stops: [`Service::migrate_some`] returns.
    fn stop_migrating(&self);

    /// Whether [`Service::bring_pinned`] has something to do.
    fn has_lower_tiers(&self) -> bool;

    /// Waits until content may have to be brought to the tier that it is pinned to, and brings it. Says whether to call again.
    fn bring_pinned(&self) -> bool;

    /// The daemon stops: [`Service::bring_pinned`] returns.
    fn stop_bringing(&self);

    /// Does one thing that can wait until the daemon is idle. Says whether there was one.
    fn tidy(&self) -> Result<bool, Error>;

    /// A session kicked: its log has grown; or the process ended whose session was awaited.
    fn kicked(&self, session: SessionId);

    /// How long there may be no kick until everything is due; `None`: all is digested.
    fn idle_after(&self) -> Option<Duration>;

    /// The daemon leaves: everything is digested, every session is told that this daemon is gone.
    fn stop(&self) -> Result<(), Error>;

    /// Closes the store for good: whatever connections still ask changes nothing any more.
    fn leave(&self);

    /// Whether it was closed: answers count for no client from now on.
    fn is_left(&self) -> bool;
}

impl Service for SharedFs {
    fn attach(
        &self,
        pid: u32,
        program: &str,
        first: InodeNumber,
        wish: DurabilityWish,
    ) -> Result<Attached, Error> {
        let asked = Instant::now();
        let (handle, mut welcome, descriptors) = SharedFs::attach(self, pid, program)?;
        self.choose_durability(&mut welcome, wish);
        welcome.ahead = self.grant_first(handle.session, first);
        self.request_times.note_attach(asked.elapsed());
        self.attached(&handle, welcome, descriptors)
    }

    fn resume(
        &self,
        session: SessionId,
        pid: u32,
        program: &str,
        wish: DurabilityWish,
    ) -> Result<Attached, Error> {
        let (handle, mut welcome, descriptors) = SharedFs::resume(self, session, pid, program)?;
        self.choose_durability(&mut welcome, wish);
        self.attached(&handle, welcome, descriptors)
    }

    fn awaited(&self) -> Vec<(SessionId, Arc<OwnedFd>)> {
        SharedFs::awaited(self)
    }

    fn handle(&self, session: Option<SessionId>, request: &Request) -> Answer {
        let mut descriptors = Vec::new();
        let session = session.unwrap_or(SessionId::NOBODY);
        let response = SharedFs::handle(self, session, request, &mut descriptors);
        Answer { response, descriptors }
    }

    fn answered(&self, session: Option<SessionId>) {
        session.into_iter().for_each(|session| self.note_answer(session));
    }

    fn keep_in_kernel(&self, session: Option<SessionId>, device: Option<OwnedFd>) -> Answer {
        let cache = device.and_then(KernelCache::new);
        let (Some(session), Some(cache)) = (session, cache) else {
            return Refusal::Invalid("no session's, or no descriptor of a mount with it".into()).into();
        };
        match SharedFs::keep_in_kernel(self, session, cache) {
            Ok(()) => {
                let term_ms = KERNEL_TERM.as_millis() as u32;
                Answer { response: Response::KeptInKernel { term_ms }, descriptors: Vec::new() }
            }
            Err(error) => Refusal::from(error).into(),
        }
    }

    fn end_session(&self, session: SessionId, ending: Ending) -> Result<(), Error> {
        let asked = Instant::now();
        SharedFs::end_session(self, session, ending)?;
        self.request_times.note(&Request::Detach, asked.elapsed());
        Ok(())
    }

    fn digest(&self, idle: bool) -> Result<bool, Error> {
        self.digest_due(idle)
    }

    fn prepare(&self) -> Result<bool, Error> {
        SharedFs::prepare(self)
    }

    fn write_logs(&self) -> Result<Option<Duration>, Error> {
        let written = SharedFs::write_logs(self);
        // The thread that cuts holds no lock any more.
        settle();
        written
    }

    fn before_writing(&self) -> Option<Duration> {
        SharedFs::before_writing(self)
    }

    fn has_tiers_below_memory(&self) -> bool {
        SharedFs::has_tiers_below_memory(self)
    }

    fn write_back_tiers(&self) -> bool {
        SharedFs::write_back_tiers(self)
    }

    fn stop_writing_back(&self) {
        SharedFs::stop_writing_back(self);
    }

    fn migrates(&self) -> bool {
        SharedFs::migrates(self)
    }

    fn migrate_some(&self) -> bool {
        SharedFs::migrate_some(self)
    }

    fn stop_migrating(&self) {
        SharedFs::stop_migrating(self);
    }

    fn has_lower_tiers(&self) -> bool {
        SharedFs::has_lower_tiers(self)
    }

    fn bring_pinned(&self) -> bool {
        SharedFs::bring_pinned(self)
    }

    fn stop_bringing(&self) {
        self.migration.pins.end();
    }

    fn tidy(&self) -> Result<bool, Error> {
        if self.sessions_take_turns() {
            // One waits for another, and the kernel does not let go of a processor while it tidies.
            return Ok(true);
        }
        self.references.sweep_if_any()?;
        let found = self.collapse_step()? || self.give_room_back()?;
        // A digest takes memory all the time.
        if !found && self.digester.try_lock().is_some() {
            self.idle_memory.give_back(self.counters.digested_entries.load(Ordering::Relaxed));
        }
        Ok(found)
    }

    fn kicked(&self, session: SessionId) {
        if !self.end_awaited(session) {
            self.note_growth(session);
        }
    }

    fn idle_after(&self) -> Option<Duration> {
        if self.metadata.is_read_only() {
            return None;
        }
        if self.is_starved() {
            return Some(STARVED_PAUSE);
        }
        let sleep = policy::sleep(&self.backlogs(), self.polls_logs(), self.options());
        let look = self.watches_orphans().then_some(LOOK_EVERY);
        let rest = self.has_rest().then_some(STARVED_PAUSE);
        sleep.into_iter().chain(look).chain(rest).min()
    }

    fn stop(&self) -> Result<(), Error> {
        SharedFs::stop(self)
    }

    fn leave(&self) {
        SharedFs::leave(self);
    }

    fn is_left(&self) -> bool {
        SharedFs::is_left(self)
    }
}

impl SharedFs {
    fn attached(
        &self,
        handle: &SessionHandle,
        welcome: Welcome,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Attached, Error> {
        let session = handle.session;
        match handle.control.kick().try_clone() {
            Ok(kick) => {
                let answer = Answer { response: Response::Attached(welcome), descriptors };
                Ok(Attached { session, answer, kick })
            }
            Err(error) => {
                self.end_session(session, Ending::GivenUp)?;
                Err(Error::io("copy a descriptor")(error))
            }
        }
    }
}
