//! One attachment to SharedFS: the log and its growth, its kicks, and waiting for digests.
//!
//! Everything here may be called by any thread; nothing takes an inode's lock. Credits are debited before an
//! entry is appended and only count upward; what a fence voids is taken back when the session resynchronises.

use crate::arenas::Arenas;
use crate::asking::{Asking, Deliver, Subject};
use crate::control::{Incarnation, Notice, Told};
use crate::credit::Credit;
use crate::errno::Error;
use crate::link::Link;
use crate::opened::OpenSlots;
use crate::parcels::Parcels;
use crate::quotas::Quotas;
use crate::sync::{Arc, AtomicU32, AtomicU64, Mutex, Ordering, RwLock, fence};
use cuesta_format::control::{STATE_CLOSED, UNSERVED_SLOTS};
use cuesta_format::entry::Salt;
use cuesta_format::kept_names::{self, set_of};
use cuesta_format::wire::{PROTOCOL_VERSION, Refusal, Report, Request, Response, Welcome};
use cuesta_format::{Geometry, InodeNumber, LogGeneration, LogPosition, SessionId};
use cuesta_media::emulate::Emulated;
use cuesta_media::wait::{self, Waited};
use cuesta_media::{MediaError, Protection, Window, clock, persist};
use cuesta_oplog::{Appender, Marks, Ring};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::io::DupFlags;
use std::time::Duration;

/// So many lock files more are worth a kick.
const LOCK_FILES_PER_KICK: u64 = 256;

/// How long a wait for a digest sleeps before it takes its kick for lost, or the daemon for gone. Every digest wakes
/// it: in order, only one that is slow lets it sleep so long.
const DIGEST_LOOK: Duration = Duration::from_millis(250);
/// Part of the entries that may lie undigested after which the next kick is due.
const KICK_PART: u64 = 4;
/// No report was asked for ahead.
const REPORT_NONE: u32 = 0;
/// One was, and is not here.
const REPORT_ASKED: u32 = 1;
/// It is here.
const REPORT_HERE: u32 = 2;

/// The session.
pub(crate) struct Session {
    pub(crate) welcome: Welcome,
    pub(crate) appender: Appender,
    pub(crate) arenas: Arenas,
    /// What is cached is true under this lease generation.
    pub(crate) generation: AtomicU64,
    /// What the client page says of the same name.
    pub(crate) retired: AtomicU64,
    /// How often leases were given back.
    pub(crate) given_back: AtomicU64,
    pub(crate) asking: Asking,
    pub(crate) credit: Credit,
    pub(crate) quotas: Quotas,
    /// What was granted ahead.
    pub(crate) parcels: Parcels,
    /// The last report that nobody looked at yet.
    report: Mutex<Option<Report>>,
    /// `REPORT_NONE`, `REPORT_ASKED` or `REPORT_HERE`, to look at without a lock.
    report_state: AtomicU32,
    notice: Notice,
    told: Told,
    pub(crate) open_slots: Arc<OpenSlots>,
    /// The folder of lock files, by which processes keep the inodes they have descriptors of.
    pub(crate) references: RwLock<OwnedFd>,
    incarnation: Incarnation,
    /// SharedFS was asked where the log's marks go, and answered.
    has_asked_for_marks: Mutex<bool>,
    kick: RwLock<OwnedFd>,
    kicked: AtomicU64,
    slots: AtomicU32,
    growing: Mutex<()>,
    /// The log is not asked to grow before this much was admitted: SharedFS had no segments.
    grow_again: AtomicU64,
    entries_kicked: AtomicU64,
    /// In nanoseconds.
    digest_look: AtomicU64,
    waits: AtomicU64,
    waits_timed_out: AtomicU64,
}

impl Session {
    /// The log has no segment before the first entry: who only reads needs none.
    pub(crate) fn attach(
        mut link: Box<dyn Link>,
        program: &str,
        first: InodeNumber,
    ) -> Result<Session, Error> {
        let request = Request::Attach {
            version: PROTOCOL_VERSION,
            pid: rustix::process::getpid().as_raw_pid().unsigned_abs(),
            program: program.to_owned(),
            first,
            resume: SessionId::NOBODY,
        };
        let mut descriptors = Vec::new();
        let welcome = match ask(link.as_mut(), &request, &mut descriptors)? {
            Response::Attached(welcome) => welcome,
            other => return Err(unexpected(&other)),
        };
        persist::announce(welcome.medium, welcome.persistence_domain);
        let geometry = welcome.geometry.check().map_err(|error| Error::Daemon(error.to_string()))?;
        let missing = || Error::Daemon("descriptors are missing".into());
        let emulated = match welcome.emulated {
            None => None,
            Some(profile) => Some(Emulated::new(profile, descriptors.pop().ok_or_else(missing)?)?),
        };
        let [notice, told, kick, incarnation, references] =
            <[OwnedFd; 5]>::try_from(descriptors).map_err(|_| missing())?;
        let incarnation = Incarnation::map(&incarnation, welcome.incarnation)?;
        let notice = Notice::map(&notice)?;
        let told = Told::map(&told)?;
        let window = geometry.ring_bytes() + u64::from(geometry.overlap_slots()) * geometry.segment_bytes;
        let window = Window::reserve(window, welcome.medium)?;
        if let Some(emulated) = &emulated {
            window.emulate(emulated);
        }
        let salt = Salt::new(welcome.store, welcome.session, welcome.log_generation);
        let appender = Appender::new(Ring::new(window, geometry), salt, welcome.start, told.mapping());
        let credit = Credit::new(&welcome);
        let session = Session {
            arenas: Arenas::new(geometry, welcome.medium, emulated),
            generation: AtomicU64::new(welcome.lease_generation.0),
            given_back: AtomicU64::new(0),
            retired: AtomicU64::new(welcome.start.0),
            asking: Asking::new(link),
            credit,
            quotas: Quotas::default(),
            parcels: Parcels::default(),
            report: Mutex::new(None),
            report_state: AtomicU32::new(REPORT_NONE),
            notice,
            open_slots: Arc::new(OpenSlots::new(told.clone())),
            told,
            references: RwLock::new(references),
            incarnation,
            has_asked_for_marks: Mutex::new(false),
            kick: RwLock::new(kick),
            kicked: AtomicU64::new(welcome.start.0),
            slots: AtomicU32::new(0),
            growing: Mutex::new(()),
            grow_again: AtomicU64::new(0),
            entries_kicked: AtomicU64::new(0),
            digest_look: AtomicU64::new(DIGEST_LOOK.as_nanos() as u64),
            waits: AtomicU64::new(0),
            waits_timed_out: AtomicU64::new(0),
            appender,
            welcome,
        };
        session.tell_log_generation(session.welcome.log_generation);
        Ok(session)
    }

    /// The descriptors the session keeps open, by their numbers.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = i32> {
        let kept = [&self.kick, &self.references].map(|kept| kept.read().as_raw_fd());
        self.asking.descriptor().into_iter().chain(kept)
    }

    /// Goes on with `copy` for the descriptor `number`, which is answered; `copy` itself if it is none of ours.
    pub(crate) fn replace_descriptor(&self, number: i32, copy: OwnedFd) -> OwnedFd {
        for kept in [&self.kick, &self.references] {
            let mut kept = kept.write();
            if kept.as_raw_fd() == number {
                return std::mem::replace(&mut *kept, copy);
            }
        }
        match self.asking.descriptor() {
            Some(descriptor) if descriptor == number => self.asking.replace_descriptor(copy),
            _ => copy,
        }
    }

    /// Goes on with another daemon, which has taken the session up. No operation is in flight; what the log holds behind
    /// its new start is void.
    pub(crate) fn go_on(&self, welcome: &Welcome, descriptors: Vec<OwnedFd>) -> Result<(), Error> {
        let [notice, told, kick, _incarnation, _references] = <[OwnedFd; 5]>::try_from(descriptors)
            .map_err(|_| Error::Daemon("descriptors are missing".into()))?;
        if welcome.session != self.welcome.session || welcome.geometry != self.welcome.geometry {
            return Err(Error::Daemon("it took up another session".into()));
        }
        persist::announce(welcome.medium, welcome.persistence_domain);
        self.told.replace(&told)?;
        self.notice.replace(&notice)?;
        // Its number stays, by which others know it.
        rustix::io::dup3(&kick, &mut self.kick.write(), DupFlags::CLOEXEC)
            .map_err(|errno| Error::Daemon(format!("cannot put a descriptor in its place: {errno}")))?;
        self.credit.restart(welcome);
        // The file may be another one now.
        self.appender.keep_marks(None);
        *self.has_asked_for_marks.lock() = false;
        self.incarnation.go_on(welcome.incarnation);
        Ok(())
    }

    /// Finds out where the log says how far it is acknowledged, before the first time that it does (medium `block`). Without that, a loss
    /// of what nothing stands behind in the log is taken for the work of a crash.
    pub(crate) fn find_marks(&self) {
        let mut has_asked = self.has_asked_for_marks.lock();
        if *has_asked {
            return;
        }
        let mut descriptors = Vec::new();
        match self.call(&Request::Marks, &mut descriptors) {
            Ok(Response::Marks { slot }) => {
                let marks = descriptors.pop().and_then(|file| Marks::new(file, slot).ok());
                self.appender.keep_marks(marks);
            }
            // The next daemon is asked again.
            Err(Error::Disconnected) => return,
            _ => {}
        }
        *has_asked = true;
    }

    /// Vouches for everything that the client page calls completed.
    fn tell_log_generation(&self, log_generation: LogGeneration) {
        self.told.page().log_generation.store(log_generation.0, Ordering::Release);
    }

    pub(crate) fn log_generation(&self) -> LogGeneration {
        LogGeneration(self.told.page().log_generation.load(Ordering::Acquire))
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.welcome.geometry
    }

    /// Asks SharedFS; a refusal is an error.
    pub(crate) fn call(&self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, Error> {
        self.asking.call(request, descriptors, self)
    }

    /// Asks for a report ahead, unless one is on its way.
    pub(crate) fn post_report(&self, from: LogPosition, skip: u64) {
        self.report_state.store(REPORT_ASKED, Ordering::Relaxed);
        if !self.asking.post(Subject::Report, &Request::Report { from, skip }, self) {
            self.report_state.store(REPORT_NONE, Ordering::Relaxed);
        }
    }

    /// The report that was asked for ahead, if it came.
    pub(crate) fn take_report(&self) -> Option<Report> {
        let report = self.report.lock().take()?;
        self.report_state.store(REPORT_NONE, Ordering::Relaxed);
        Some(report)
    }

    /// Whether a report is here that was asked for ahead; `None`: none was asked for.
    #[inline]
    pub(crate) fn has_report(&self) -> Option<bool> {
        match self.report_state.load(Ordering::Relaxed) {
            REPORT_NONE => None,
            state => Some(state == REPORT_HERE),
        }
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

    /// Whether the daemon says that it is the store's still: then the page that counts daemons was damaged, and is set right.
    #[cold]
    pub(crate) fn stands_as_asked(&self) -> bool {
        matches!(self.ask(&Request::Stands), Ok(Response::Done)) && self.stands()
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

    /// Differs from limits of users to limits; 0: nobody has any.
    #[inline]
    pub(crate) fn limits_shown(&self) -> u64 {
        self.notice.page().quotas.load(Ordering::Acquire)
    }

    /// Blocks that may be debited in all.
    #[inline]
    pub(crate) fn credit_limit(&self) -> u64 {
        self.notice.page().credit_limit.load(Ordering::Acquire)
    }

    /// Whether the log holds as many undigested entries as recovery may have to digest.
    #[inline]
    pub(crate) fn holds_too_many(&self) -> bool {
        let page = self.notice.page();
        let undigested =
            self.appender.entries().saturating_sub(page.digested_entries.load(Ordering::Relaxed));
        undigested >= page.entries_max.load(Ordering::Relaxed)
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
        let offsets = match self.call(&Request::GrowLog { have, slots: wanted }, &mut segments) {
            Ok(Response::Grown { offsets }) => offsets,
            Ok(other) => return Err(unexpected(&other)),
            Err(Error::NoSpace) => Vec::new(),
            Err(error) => return Err(error),
        };
        // Fewer arrive where the program has no descriptors left. The next question gets them once more.
        let added = offsets.len();
        if added > (geometry.ring_slots - have) as usize || segments.len() > added {
            return Err(Error::Daemon("more log segments than were asked for".into()));
        }
        if segments.is_empty() && added > 0 {
            return Err(Error::Descriptors);
        }
        let bytes = geometry.segment_bytes;
        let window = self.appender.ring().window();
        for (slot, (segment, &offset)) in (have..).zip(segments.iter().zip(&offsets)) {
            let at = u64::from(slot) * bytes;
            // A short program touches little of its first segment: it pays as it goes.
            window.map(segment, offset, bytes, at, Protection::ReadWrite, slot > 0)?;
            if slot < geometry.overlap_slots() {
                let behind = geometry.ring_bytes() + at;
                // Only entries that cross the ring's end touch it here: too few to make every start pay for it.
                window.map(segment, offset, bytes, behind, Protection::ReadWrite, false)?;
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
        let entries = self.appender.entries();
        let many = page.entries_max.load(Ordering::Relaxed) / KICK_PART;
        let was_clean = page.digested.load(Ordering::Relaxed) >= kicked;
        let is_long = end.0.saturating_sub(kicked) >= page.kick_bytes.load(Ordering::Relaxed).max(1)
            || entries.saturating_sub(self.entries_kicked.load(Ordering::Relaxed)) >= many.max(1);
        if (was_clean || is_long)
            && self
                .kicked
                .compare_exchange(kicked, end.0.max(kicked), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.entries_kicked.store(entries, Ordering::Relaxed);
            // Either this finds that SharedFS looks no more, or its last look finds what was appended.
            fence(Ordering::SeqCst);
            if is_long || !self.is_attended() {
                self.raise_kick();
            }
        }
    }

    /// Whether somebody is about to take the directory, or one beside it.
    pub(crate) fn is_wanted(&self, directory: InodeNumber) -> bool {
        self.notice.page().wanted[set_of(directory)].load(Ordering::SeqCst) != 0
    }

    /// Marks a directory as one of which a mount's kernel is to keep a name, if there is room for that.
    pub(crate) fn mark_names(&self, directory: InodeNumber) -> bool {
        kept_names::mark(&self.told.page().kept_names[set_of(directory)], directory, clock::ticks())
    }

    /// How long a mount's kernel may still keep names of it.
    pub(crate) fn names_left(&self, directory: InodeNumber) -> Option<Duration> {
        let set = &self.told.page().kept_names[set_of(directory)];
        let marks = set.each_ref().map(|mark| mark.load(Ordering::SeqCst));
        kept_names::left(marks, directory, clock::ticks())
    }

    /// Whether SharedFS looks at the log without a kick: somebody waits for an inode that this session has, or will soon.
    pub(crate) fn is_attended(&self) -> bool {
        self.notice.page().attended.load(Ordering::SeqCst) != 0
    }

    /// A lock file was asked for.
    pub(crate) fn note_lock_file(&self) {
        let before = self.told.page().lock_files.fetch_add(1, Ordering::Relaxed);
        if before % LOCK_FILES_PER_KICK == LOCK_FILES_PER_KICK - 1 {
            self.raise_kick();
        }
    }

    /// Wakes SharedFS. That it is gone shows elsewhere.
    pub(crate) fn raise_kick(&self) {
        let _ = wait::raise(&*self.kick.read());
    }

    /// Sleeps until `digested` moves past `seen`. If it does not for long, SharedFS is asked for a digest: it had not
    /// heard the kick, or is gone, and either shows then.
    pub(crate) fn wait_digest(&self, seen: LogPosition) -> Result<(), Error> {
        let page = self.notice.page();
        self.told.page().waiters.fetch_add(1, Ordering::SeqCst);
        let wake = page.digest_wake.load(Ordering::SeqCst);
        self.raise_kick();
        let closed = self.closed();
        let mut waited = Waited::Changed;
        if !closed && self.digested() <= seen {
            self.waits.fetch_add(1, Ordering::Relaxed);
            let look = Duration::from_nanos(self.digest_look.load(Ordering::Relaxed));
            waited = wait::wait(&page.digest_wake, wake, Some(look));
        }
        self.told.page().waiters.fetch_sub(1, Ordering::SeqCst);
        if closed {
            return Err(Error::Disconnected);
        }
        if waited == Waited::TimedOut {
            self.waits_timed_out.fetch_add(1, Ordering::Relaxed);
            self.ask(&Request::Digest)?;
        }
        Ok(())
    }

    /// Who waits for a digest asks for one after `look`.
    pub(crate) fn look_for_digest_after(&self, look: Duration) {
        let nanoseconds = u64::try_from(look.as_nanos()).unwrap_or(u64::MAX);
        self.digest_look.store(nanoseconds, Ordering::Relaxed);
    }

    /// Waits for a digest so far, and how many of them nobody ended.
    pub(crate) fn digest_waits(&self) -> (u64, u64) {
        (self.waits.load(Ordering::Relaxed), self.waits_timed_out.load(Ordering::Relaxed))
    }

    /// Goes on after a fence: the log at `position` in a new generation. No operation is in flight.
    pub(crate) fn restart(&self, position: LogPosition, log_generation: LogGeneration) {
        self.appender.restart(position, Salt::new(self.welcome.store, self.welcome.session, log_generation));
        self.tell_log_generation(log_generation);
        self.kicked.store(position.0, Ordering::Relaxed);
        // What was accepted is digested, the rest is void.
        let digested = self.notice.page().digested_entries.load(Ordering::Relaxed);
        self.appender.recount(digested);
        self.entries_kicked.store(digested, Ordering::Relaxed);
        *self.report.lock() = None;
        self.report_state.store(REPORT_NONE, Ordering::Relaxed);
        self.set_retired(position);
    }
}

impl Deliver for Session {
    fn deliver(&self, subject: Subject, answer: Result<Response, Error>) {
        match subject {
            Subject::Credit => self.credit.deliver_blocks(&answer, self.geometry().nvm_bytes),
            // None: whoever needs one asks again, and is told why not.
            Subject::Numbers => drop(self.credit.deliver_numbers(&answer, None)),
            Subject::Report => match answer {
                Ok(Response::Report(report)) => {
                    *self.report.lock() = Some(report);
                    self.report_state.store(REPORT_HERE, Ordering::Relaxed);
                }
                _ => self.report_state.store(REPORT_NONE, Ordering::Relaxed),
            },
            // What cannot be read is not there: whoever wants it asks, and is told why.
            Subject::Ahead => {
                if let Ok(Response::Ahead(parcel)) = answer {
                    let _ = self.parcels.add(parcel);
                }
            }
        }
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
            Refusal::OverQuota => Error::OverQuota,
            Refusal::SessionEnded => Error::SessionEnded,
            Refusal::Version { .. } => Error::Version(refusal.to_string()),
            Refusal::Invalid(why) | Refusal::Internal(why) => Error::Daemon(why),
        }
    }
}

impl From<crate::link::LinkError> for Error {
    fn from(error: crate::link::LinkError) -> Self {
        match error {
            crate::link::LinkError::Gone(_) => Error::Disconnected,
            crate::link::LinkError::Barred(_) => Error::Daemon(error.to_string()),
            crate::link::LinkError::Garbled(why) => Error::Daemon(why),
            crate::link::LinkError::Version(why) => Error::Version(why),
        }
    }
}

impl From<MediaError> for Error {
    fn from(error: MediaError) -> Self {
        Error::Daemon(error.to_string())
    }
}
