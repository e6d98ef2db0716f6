//! One attachment to SharedFS: the log and its growth, credits, inode numbers, and the requests.
//!
//! Everything here may be called by any thread; nothing takes an inode's lock. Credits are debited before an
//! entry is appended and only count upward; what a fence voids is taken back when the session resynchronises.

use crate::arenas::Arenas;
use crate::control::{Incarnation, Notice, Told};
use crate::errno::Error;
use crate::link::Link;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use cuesta_format::control::{STATE_CLOSED, UNSERVED_SLOTS};
use cuesta_format::entry::Salt;
use cuesta_format::wire::{PROTOCOL_VERSION, Refusal, Request, Response, Welcome};
use cuesta_format::{BLOCK_BYTES, Geometry, InodeNumber, LogPosition};
use cuesta_media::{MediaError, Protection, Window, wait};
use cuesta_oplog::{Appender, Ring};
use rustix::fd::OwnedFd;
use std::time::Duration;

/// Ring slots a session starts with: enough for a short program, cheap to map.
const SLOTS_FIRST: u32 = 1;
/// Blocks asked for at least when the credit is used up; each time after that twice as many.
const CREDIT_STEP_BLOCKS: u64 = 4096;
/// Part of the tier one question asks for at most, unless that is less than a step.
const CREDIT_TIER_PART: u64 = 32;
/// Inode numbers asked for at once.
const NUMBERS_STEP: u32 = 4096;
/// How long a wait for a digest sleeps before it looks at the daemon's state again.
const DIGEST_LOOK: Duration = Duration::from_millis(50);

/// The session.
pub(crate) struct Session {
    pub(crate) welcome: Welcome,
    pub(crate) appender: Appender,
    pub(crate) arenas: Arenas,
    /// What is cached is true under this lease generation.
    pub(crate) generation: AtomicU64,
    /// What the client page says of the same name.
    pub(crate) retired: AtomicU64,
    link: Mutex<Box<dyn Link>>,
    notice: Notice,
    told: Told,
    incarnation: Incarnation,
    kick: OwnedFd,
    kicked: AtomicU64,
    slots: AtomicU32,
    growing: Mutex<()>,
    /// The log is not asked to grow before this much was admitted: SharedFS had no segments.
    grow_again: AtomicU64,
    debited: AtomicU64,
    /// Blocks asked for next.
    credit_step: AtomicU64,
    numbers: Mutex<Numbers>,
}

/// Inode numbers not given yet.
struct Numbers {
    next: u64,
    end: u64,
}

impl Session {
    pub(crate) fn attach(mut link: Box<dyn Link>, program: &str) -> Result<Session, Error> {
        let request = Request::Attach {
            version: PROTOCOL_VERSION,
            pid: rustix::process::getpid().as_raw_pid().unsigned_abs(),
            program: program.to_owned(),
        };
        let mut descriptors = Vec::new();
        let welcome = match ask(link.as_mut(), &request, &mut descriptors)? {
            Response::Attached(welcome) => welcome,
            other => return Err(unexpected(&other)),
        };
        let geometry = welcome.geometry.check().map_err(|error| Error::Daemon(error.to_string()))?;
        let [notice, told, kick, incarnation] = <[OwnedFd; 4]>::try_from(descriptors)
            .map_err(|_| Error::Daemon("descriptors are missing".into()))?;
        let incarnation = Incarnation::map(&incarnation, welcome.incarnation)?;
        let notice = Notice::map(&notice)?;
        let told = Told::map(&told)?;
        let window = geometry.ring_bytes() + u64::from(geometry.overlap_slots()) * geometry.segment_bytes;
        let window = Window::reserve(window, welcome.medium)?;
        let salt = Salt::new(welcome.store, welcome.session, welcome.log_generation);
        let appender = Appender::new(Ring::new(window, geometry), salt, welcome.start, told.mapping());
        let session = Session {
            arenas: Arenas::new(geometry, welcome.medium),
            generation: AtomicU64::new(welcome.lease_generation.0),
            retired: AtomicU64::new(welcome.start.0),
            link: Mutex::new(link),
            notice,
            told,
            incarnation,
            kick,
            kicked: AtomicU64::new(welcome.start.0),
            slots: AtomicU32::new(0),
            growing: Mutex::new(()),
            grow_again: AtomicU64::new(0),
            debited: AtomicU64::new(0),
            credit_step: AtomicU64::new(CREDIT_STEP_BLOCKS),
            numbers: Mutex::new(Numbers {
                next: welcome.inode_first.0,
                end: welcome.inode_first.0 + u64::from(welcome.inode_count),
            }),
            appender,
            welcome,
        };
        session.grow(SLOTS_FIRST)?;
        Ok(session)
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.welcome.geometry
    }

    /// Asks SharedFS; a refusal is an error.
    pub(crate) fn call(&self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, Error> {
        ask(self.link.lock().as_mut(), request, descriptors)
    }

    /// Asks SharedFS something that needs no descriptors.
    pub(crate) fn ask(&self, request: &Request) -> Result<Response, Error> {
        self.call(request, &mut Vec::new())
    }

    /// Whether the daemon this session attached to is still the store's.
    #[inline]
    pub(crate) fn stands(&self) -> bool {
        self.incarnation.stands()
    }

    /// The lease generation SharedFS shows now; one no lease was ever held under if another daemon took over,
    /// for whom this session's log ended where it found it.
    #[inline]
    pub(crate) fn shown_generation(&self) -> u64 {
        if self.stands() { self.notice.page().generation.load(Ordering::SeqCst) } else { u64::MAX }
    }

    #[inline]
    pub(crate) fn digested(&self) -> LogPosition {
        LogPosition(self.notice.page().digested.load(Ordering::Acquire))
    }

    pub(crate) fn retired(&self) -> LogPosition {
        LogPosition(self.retired.load(Ordering::Acquire))
    }

    /// Says that nothing below `position` is read any more, and uses the space.
    pub(crate) fn set_retired(&self, position: LogPosition) {
        self.retired.store(position.0, Ordering::Release);
        self.told.page().retired.store(position.0, Ordering::SeqCst);
        self.appender.set_limit(self.slots.load(Ordering::Acquire), position);
    }

    /// SharedFS gave this session up, or goes away.
    #[inline]
    pub(crate) fn closed(&self) -> bool {
        self.notice.page().state.load(Ordering::Acquire) & STATE_CLOSED != 0
    }

    /// Counts an operation and its bytes, for `cuesta status`.
    #[inline]
    pub(crate) fn count(&self, read: u64, written: u64) {
        let page = self.told.page();
        // Lossy on purpose: a counter for people is not worth a locked instruction.
        let add = |counter: &AtomicU64, amount: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        };
        add(&page.operations, 1);
        if read > 0 {
            add(&page.bytes_read, read);
        }
        if written > 0 {
            add(&page.bytes_written, written);
        }
    }

    pub(crate) fn count_unserved(&self, system_call: usize) {
        let slot = system_call.min(UNSERVED_SLOTS - 1);
        if let Some(counter) = self.told.page().unserved.get(slot) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Debits the credit, if it suffices.
    #[inline]
    pub(crate) fn debit(&self, blocks: u64) -> bool {
        if blocks == 0 {
            return true;
        }
        let total = self.debited.fetch_add(blocks, Ordering::AcqRel) + blocks;
        if total <= self.notice.page().credit_limit.load(Ordering::Acquire) {
            return true;
        }
        self.give_back_debit(blocks);
        false
    }

    /// Takes back a debit whose entry was not appended, or was voided.
    #[inline]
    pub(crate) fn give_back_debit(&self, blocks: u64) {
        if blocks > 0 {
            self.debited.fetch_sub(blocks, Ordering::AcqRel);
        }
    }

    /// Asks for more credit. `false`: the store is full.
    pub(crate) fn ask_credit(&self, blocks: u64) -> Result<bool, Error> {
        let limit = self.notice.page().credit_limit.load(Ordering::Acquire);
        let missing = (self.debited.load(Ordering::Acquire) + blocks).saturating_sub(limit);
        if missing == 0 {
            return Ok(true);
        }
        let ask = |blocks| match self.ask(&Request::Credit { blocks }) {
            Ok(Response::Done) => Ok(true),
            Ok(other) => Err(unexpected(&other)),
            Err(Error::NoSpace) => Ok(false),
            Err(error) => Err(error),
        };
        let step = self.credit_step.load(Ordering::Relaxed);
        if ask(missing.max(step))? {
            let most = self.geometry().nvm_bytes / BLOCK_BYTES / CREDIT_TIER_PART;
            self.credit_step.store((step * 2).min(most.max(CREDIT_STEP_BLOCKS)), Ordering::Relaxed);
            return Ok(true);
        }
        self.credit_step.store(CREDIT_STEP_BLOCKS, Ordering::Relaxed);
        Ok(missing < step && ask(missing)?)
    }

    /// A fresh inode number, if one is at hand.
    #[inline]
    pub(crate) fn take_number(&self) -> Option<InodeNumber> {
        let mut numbers = self.numbers.lock();
        if numbers.next >= numbers.end {
            return None;
        }
        numbers.next += 1;
        Some(InodeNumber(numbers.next - 1))
    }

    /// Gets more inode numbers.
    pub(crate) fn ask_numbers(&self) -> Result<(), Error> {
        let answer = self.ask(&Request::InodeNumbers { count: NUMBERS_STEP })?;
        let Response::InodeNumbers { first, count } = answer else {
            return Err(unexpected(&answer));
        };
        if count == 0 {
            return Err(Error::NoSpace);
        }
        let mut numbers = self.numbers.lock();
        if numbers.next >= numbers.end {
            *numbers = Numbers { next: first.0, end: first.0.saturating_add(u64::from(count)) };
        }
        Ok(())
    }

    /// Whether the log should get more segments: more than a quarter of what there is was used. Early, because a
    /// log that was once fully grown never has to wait for a segment again.
    #[inline]
    pub(crate) fn wants_to_grow(&self) -> bool {
        let slots = self.slots.load(Ordering::Relaxed);
        let admitted = self.appender.admitted().0;
        slots < self.geometry().ring_slots
            && admitted * 4 > u64::from(slots) * self.geometry().segment_bytes
            && admitted >= self.grow_again.load(Ordering::Relaxed)
    }

    /// Doubles the log ahead of need, unless another thread is at it.
    pub(crate) fn grow_ahead(&self) -> Result<(), Error> {
        if self.growing.is_locked() || self.grow_towards(LogPosition(0))? {
            return Ok(());
        }
        let later = self.appender.admitted().0 + self.geometry().segment_bytes / 4;
        self.grow_again.store(later, Ordering::Relaxed);
        Ok(())
    }

    /// Whether every slot of the ring is granted: only then does the log wrap.
    pub(crate) fn is_fully_grown(&self) -> bool {
        self.slots.load(Ordering::Acquire) >= self.geometry().ring_slots
    }

    /// Doubles the log, or more if `needed` must fit below the limit. `false`: nothing was added.
    pub(crate) fn grow_towards(&self, needed: LogPosition) -> Result<bool, Error> {
        let slots = self.slots.load(Ordering::Acquire);
        let for_need = needed.0.div_ceil(self.geometry().segment_bytes).min(u64::from(u32::MAX)) as u32;
        self.grow(for_need.max(slots.saturating_mul(2)))
    }

    fn grow(&self, wanted: u32) -> Result<bool, Error> {
        let _growing = self.growing.lock();
        let geometry = *self.geometry();
        let have = self.slots.load(Ordering::Acquire);
        let wanted = wanted.min(geometry.ring_slots);
        if wanted <= have {
            return Ok(false);
        }
        let mut segments = Vec::new();
        let added = match self.call(&Request::GrowLog { slots: wanted }, &mut segments) {
            Ok(Response::Grown { added }) => added,
            Ok(other) => return Err(unexpected(&other)),
            Err(Error::NoSpace) => 0,
            Err(error) => return Err(error),
        };
        if added as usize != segments.len() || added > geometry.ring_slots - have {
            return Err(Error::Daemon("descriptors of log segments are missing".into()));
        }
        let bytes = geometry.segment_bytes;
        let window = self.appender.ring().window();
        for (slot, segment) in (have..).zip(&segments) {
            let at = u64::from(slot) * bytes;
            // A short program touches little of its first segment: it pays as it goes.
            window.map(segment, 0, bytes, at, Protection::ReadWrite, slot > 0)?;
            if slot < geometry.overlap_slots() {
                let behind = geometry.ring_bytes() + at;
                // Only entries that cross the ring's end touch it here: too few to make every start pay for it.
                window.map(segment, 0, bytes, behind, Protection::ReadWrite, false)?;
            }
            self.slots.store(slot + 1, Ordering::Release);
        }
        self.appender.set_limit(self.slots.load(Ordering::Acquire), self.retired());
        Ok(added > 0)
    }

    /// Tells SharedFS that there is something to digest, when an entry that ends at `end` makes that news.
    #[inline]
    pub(crate) fn appended(&self, end: LogPosition) {
        let kicked = self.kicked.load(Ordering::Relaxed);
        let page = self.notice.page();
        let news = page.digested.load(Ordering::Relaxed) >= kicked
            || end.0.saturating_sub(kicked) >= page.kick_bytes.load(Ordering::Relaxed).max(1);
        if news
            && self
                .kicked
                .compare_exchange(kicked, end.0.max(kicked), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.raise_kick();
        }
    }

    /// Wakes SharedFS. That it is gone shows elsewhere.
    pub(crate) fn raise_kick(&self) {
        let _ = wait::raise(&self.kick);
    }

    /// Sleeps until `digested` moves past `seen`. [`Error::Disconnected`] when nobody will move it.
    pub(crate) fn wait_digest(&self, seen: LogPosition) -> Result<(), Error> {
        let page = self.notice.page();
        self.told.page().waiters.fetch_add(1, Ordering::SeqCst);
        let wake = page.digest_wake.load(Ordering::SeqCst);
        self.raise_kick();
        let closed = self.closed();
        if !closed && self.digested() <= seen {
            wait::wait(&page.digest_wake, wake, Some(DIGEST_LOOK));
        }
        self.told.page().waiters.fetch_sub(1, Ordering::SeqCst);
        if closed { Err(Error::Disconnected) } else { Ok(()) }
    }

    /// Goes on after a fence: the log at `position` under a new salt. No operation is in flight.
    pub(crate) fn restart(&self, position: LogPosition, salt: Salt) {
        self.appender.restart(position, salt);
        self.kicked.store(position.0, Ordering::Relaxed);
        self.set_retired(position);
    }
}

fn ask(link: &mut dyn Link, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, Error> {
    match link.call(request, descriptors) {
        Ok(Response::Failed(refusal)) => Err(refusal.into()),
        Ok(response) => Ok(response),
        Err(error) => Err(error.into()),
    }
}

/// The error for an answer that does not fit its question.
pub(crate) fn unexpected(_response: &Response) -> Error {
    Error::Daemon("the answer does not fit the request".into())
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Error::NotFound,
            Refusal::NoSpace => Error::NoSpace,
            Refusal::SessionEnded => Error::Disconnected,
            Refusal::Version { .. } => Error::Version(refusal.to_string()),
            Refusal::Invalid(why) | Refusal::Internal(why) => Error::Daemon(why),
        }
    }
}

impl From<crate::link::LinkError> for Error {
    fn from(error: crate::link::LinkError) -> Self {
        match error {
            crate::link::LinkError::Gone(_) => Error::Disconnected,
            crate::link::LinkError::Garbled(why) => Error::Daemon(why),
        }
    }
}

impl From<MediaError> for Error {
    fn from(error: MediaError) -> Self {
        Error::Daemon(error.to_string())
    }
}
