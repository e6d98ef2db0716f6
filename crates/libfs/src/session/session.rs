//! One attachment to SharedFS: the log's appender, the control pages, and the questions to the daemon.
//!
//! Any thread may call everything here. Nothing here takes an inode's lock, and nothing knows the client or
//! an inode. Log growth is in `log_growth`, kicks and waits for digests are in `kicks`, counters and flags of
//! the control pages are in `pages`.

use crate::errno::{Error, unexpected};
use crate::leases::parcel_store::ParcelStore;
use crate::log::epoch_state::SessionEpochs;
use crate::session::arenas::Arenas;
use crate::session::control::{ClientMapping, NoticeMapping, StorePageMapping};
use crate::session::credit::Credit;
use crate::session::link::Link;
use crate::session::open_slots::OpenSlots;
use crate::session::quotas::{Payers, Quotas};
use crate::session::requests::{Deliver, Requests, Subject};
use crate::sync::{Arc, AtomicU32, AtomicU64, Mutex, Ordering, RwLock};
use cuesta_format::control::{STATE_CLOSED, STATE_LOST, STATE_UNWRITABLE};
use cuesta_format::durability::DurabilityWish;
use cuesta_format::entry::Salt;
use cuesta_format::quota::Amounts;
use cuesta_format::wire::{PROTOCOL_VERSION, Report, Request, Response, Welcome};
use cuesta_format::{Geometry, InodeNumber, LogGeneration, LogPosition, SessionId};
use cuesta_media::emulate::{Emulated, PlayedDisk};
use cuesta_media::{Window, persist};
use cuesta_oplog::{Appender, Marks, Ring};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::io::DupFlags;
use std::time::Duration;

/// How long a wait for a digest sleeps before it assumes that the kick was lost or the daemon is gone. Every
/// digest wakes it, so only a slow digest lets it sleep this long.
const DIGEST_LOOK: Duration = Duration::from_millis(250);

/// The session has not asked for a report ahead.
const REPORT_NONE: u32 = 0;

/// It has asked for a report, which has not arrived.
const REPORT_ASKED: u32 = 1;

/// The report has arrived.
const REPORT_HERE: u32 = 2;

/// The session.
pub(crate) struct Session {
    pub(crate) welcome: Welcome,
    pub(crate) appender: Appender,
    pub(crate) arenas: Arenas,
    /// Cached state is true under this lease generation.
    pub(crate) generation: AtomicU64,
    /// The same as `retired` in the client page.
    pub(crate) retired: AtomicU64,
    /// How often the session gave leases back.
    pub(crate) given_back: AtomicU64,
    pub(crate) requests: Requests,
    pub(crate) credit: Credit,
    pub(crate) quotas: Quotas,
    /// Leases granted ahead that no operation has used yet.
    pub(crate) parcel_store: ParcelStore,
    /// The report that arrived last, until an operation takes it.
    report: Mutex<Option<Report>>,
    /// `REPORT_NONE`, `REPORT_ASKED` or `REPORT_HERE`, readable without the lock.
    report_state: AtomicU32,
    pub(super) notice: NoticeMapping,
    pub(super) client_page: ClientMapping,
    pub(crate) open_slots: Arc<OpenSlots>,
    /// The folder of lock files, by which processes keep the inodes that they have descriptors of.
    pub(crate) references: RwLock<OwnedFd>,
    pub(crate) store_page: StorePageMapping,
    pub(crate) epochs: SessionEpochs,
    /// The program's wish, for each daemon.
    pub(crate) wish: DurabilityWish,
    /// SharedFS has answered where the log's marks go.
    has_asked_for_marks: Mutex<bool>,
    pub(super) kick: RwLock<OwnedFd>,
    pub(super) kicked: AtomicU64,
    pub(super) slots: AtomicU32,
    pub(super) growing: Mutex<()>,
    /// The session does not ask for segments before the log has admitted this much: SharedFS had none left.
    pub(super) grow_again: AtomicU64,
    pub(super) entries_kicked: AtomicU64,
    /// In nanoseconds.
    pub(super) digest_look: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) waits_timed_out: AtomicU64,
}

impl Session {
    /// Attaches. The log gets no segment before the first entry, because a session that only reads needs
    /// none.
    pub(crate) fn attach(
        mut link: Box<dyn Link>,
        program: &str,
        first: InodeNumber,
        wish: DurabilityWish,
    ) -> Result<Session, Error> {
        let request = Request::Attach {
            version: PROTOCOL_VERSION,
            pid: rustix::process::getpid().as_raw_pid().unsigned_abs(),
            program: program.to_owned(),
            first,
            resume: SessionId::NOBODY,
            durability: wish,
        };
        let mut descriptors = Vec::new();
        let welcome = match ask(link.as_mut(), &request, &mut descriptors)? {
            Response::Attached(welcome) => welcome,
            other => return Err(unexpected(&other)),
        };
        persist::announce(welcome.medium, welcome.persistence_domain);
        let geometry = welcome.geometry.check().map_err(|error| Error::Daemon(error.to_string()))?;
        let missing = || Error::Daemon("descriptors are missing".into());
        let (mut emulated, mut disks) = (None, Vec::new());
        if welcome.emulated.is_some() || !welcome.played.is_empty() {
            let channels = descriptors.pop().ok_or_else(missing)?;
            emulated = welcome.emulated.map(|profile| Emulated::new(profile, &channels)).transpose()?;
            for &(tier, profile) in &welcome.played {
                disks.push((tier, PlayedDisk::new(profile, tier, &channels)?));
            }
        }
        let [notice, client_page, kick, incarnation, references] =
            <[OwnedFd; 5]>::try_from(descriptors).map_err(|_| missing())?;
        let store_page = StorePageMapping::map(&incarnation, welcome.incarnation)?;
        let notice = NoticeMapping::map(&notice)?;
        let client_page = ClientMapping::map(&client_page)?;
        let window = geometry.ring_bytes() + u64::from(geometry.overlap_slots()) * geometry.segment_bytes;
        let window = Window::reserve(window, welcome.medium)?;
        if let Some(emulated) = &emulated {
            window.emulate(emulated);
        }
        let salt = Salt::new(welcome.store, welcome.session, welcome.log_generation);
        let appender = Appender::new(Ring::new(window, geometry), salt, welcome.start, client_page.mapping());
        let credit = Credit::new(&welcome);
        let session = Session {
            arenas: Arenas::new(geometry, welcome.medium, emulated, disks),
            generation: AtomicU64::new(welcome.lease_generation.0),
            given_back: AtomicU64::new(0),
            retired: AtomicU64::new(welcome.start.0),
            requests: Requests::new(link),
            credit,
            quotas: Quotas::default(),
            parcel_store: ParcelStore::default(),
            report: Mutex::new(None),
            report_state: AtomicU32::new(REPORT_NONE),
            notice,
            open_slots: Arc::new(OpenSlots::new(client_page.clone())),
            client_page,
            references: RwLock::new(references),
            store_page,
            epochs: SessionEpochs::of(&welcome),
            wish,
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
        session.publish_log_generation(session.welcome.log_generation);
        Ok(session)
    }

    /// The numbers of the descriptors that the session keeps open.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = i32> {
        let kept = [&self.kick, &self.references].map(|kept| kept.read().as_raw_fd());
        self.requests.descriptor().into_iter().chain(kept)
    }

    /// Replaces the descriptor `number` by `copy`, and answers the old one. If the number is not the
    /// session's, it answers `copy`.
    pub(crate) fn replace_descriptor(&self, number: i32, copy: OwnedFd) -> OwnedFd {
        for kept in [&self.kick, &self.references] {
            let mut kept = kept.write();
            if kept.as_raw_fd() == number {
                return std::mem::replace(&mut *kept, copy);
            }
        }
        match self.requests.descriptor() {
            Some(descriptor) if descriptor == number => self.requests.replace_descriptor(copy),
            _ => copy,
        }
    }

    /// Continues with another daemon, which has taken the session up. No operation is in flight. The part of
    /// the log behind its new start is void.
    pub(crate) fn continue_with(&self, welcome: &Welcome, descriptors: Vec<OwnedFd>) -> Result<(), Error> {
        let [notice, client_page, kick, _incarnation, _references] = <[OwnedFd; 5]>::try_from(descriptors)
            .map_err(|_| Error::Daemon("descriptors are missing".into()))?;
        if welcome.session != self.welcome.session || welcome.geometry != self.welcome.geometry {
            return Err(Error::Daemon("it took up another session".into()));
        }
        persist::announce(welcome.medium, welcome.persistence_domain);
        self.client_page.replace(&client_page)?;
        self.notice.replace(&notice)?;
        // The number of the descriptor stays the same, because the door knows it.
        rustix::io::dup3(&kick, &mut self.kick.write(), DupFlags::CLOEXEC)
            .map_err(|errno| Error::Daemon(format!("cannot put a descriptor in its place: {errno}")))?;
        self.credit.restart(welcome);
        // The new daemon's file may be another one.
        self.appender.keep_marks(None);
        *self.has_asked_for_marks.lock() = false;
        self.store_page.set_number(welcome.incarnation);
        self.epochs.continue_with(welcome);
        Ok(())
    }

    /// Asks where the log records how far it is acknowledged, before it first does so (medium `block`).
    /// Without the record, recovery would take the loss of an unmarked last part of the log for the work of a
    /// crash.
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
            // Ask the next daemon again.
            Err(Error::Disconnected) => return,
            _ => {}
        }
        *has_asked = true;
    }

    /// Tells SharedFS the generation of the log. This vouches for everything that the client page calls
    /// completed.
    fn publish_log_generation(&self, log_generation: LogGeneration) {
        self.client_page.page().log_generation.store(log_generation.0, Ordering::Release);
    }

    pub(crate) fn log_generation(&self) -> LogGeneration {
        LogGeneration(self.client_page.page().log_generation.load(Ordering::Acquire))
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.welcome.geometry
    }

    /// Asks SharedFS. A refusal is an error.
    pub(crate) fn call(&self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, Error> {
        self.requests.call(request, descriptors, self)
    }

    /// Asks SharedFS for something that needs no descriptors.
    pub(crate) fn ask(&self, request: &Request) -> Result<Response, Error> {
        self.call(request, &mut Vec::new())
    }

    /// Posts a request for a report, unless one is on its way.
    pub(crate) fn post_report(&self, from: LogPosition, skip: u64) {
        self.report_state.store(REPORT_ASKED, Ordering::Relaxed);
        if !self.requests.post(Subject::Report, &Request::Report { from, skip }, self) {
            self.report_state.store(REPORT_NONE, Ordering::Relaxed);
        }
    }

    /// The report that the session asked for ahead, if it has arrived.
    pub(crate) fn take_report(&self) -> Option<Report> {
        let report = self.report.lock().take()?;
        self.report_state.store(REPORT_NONE, Ordering::Relaxed);
        Some(report)
    }

    /// Whether the report has arrived. `None`: the session has not asked for one.
    #[inline]
    pub(crate) fn has_report(&self) -> Option<bool> {
        match self.report_state.load(Ordering::Relaxed) {
            REPORT_NONE => None,
            state => Some(state == REPORT_HERE),
        }
    }

    /// Whether the daemon that this session attached to is still the store's.
    #[inline]
    pub(crate) fn daemon_is_current(&self) -> bool {
        self.store_page.is_current()
    }

    /// Asks the daemon whether it is still the store's. If so, the page that counts daemons was damaged, and
    /// the daemon repairs it.
    #[cold]
    pub(crate) fn ask_daemon_is_current(&self) -> bool {
        matches!(self.ask(&Request::Stands), Ok(Response::Done)) && self.daemon_is_current()
    }

    /// The lease generation that SharedFS shows now. If another daemon took over, it is a generation under
    /// which no lease was ever held, because that daemon accepted only what it found in the log.
    #[inline]
    pub(crate) fn shown_generation(&self) -> u64 {
        if self.daemon_is_current() { self.notice.page().generation.load(Ordering::SeqCst) } else { u64::MAX }
    }

    #[inline]
    pub(crate) fn digested(&self) -> LogPosition {
        LogPosition(self.notice.page().digested.load(Ordering::Acquire))
    }

    pub(crate) fn retired(&self) -> LogPosition {
        LogPosition(self.retired.load(Ordering::Acquire))
    }

    /// Publishes that no reader needs the log below `position`, and reuses the space.
    pub(crate) fn set_retired(&self, position: LogPosition) {
        self.retired.store(position.0, Ordering::Release);
        self.client_page.page().retired.store(position.0, Ordering::SeqCst);
        self.appender.set_limit(self.slots.load(Ordering::Acquire), position);
    }

    /// Whether SharedFS gave this session up, or is shutting down.
    #[inline]
    pub(crate) fn closed(&self) -> bool {
        self.notice.page().state.load(Ordering::Acquire) & STATE_CLOSED != 0
    }

    /// Whether the disk did not take a log.
    pub(crate) fn has_unwritable_log(&self) -> bool {
        self.notice.page().state.load(Ordering::Acquire) & STATE_UNWRITABLE != 0
    }

    /// Whether a disk lost content that this session staged.
    #[inline]
    pub(crate) fn has_lost_content(&self) -> bool {
        self.notice.page().state.load(Ordering::Acquire) & STATE_LOST != 0
    }

    /// Starts the log again at `position` in a new generation, after a fence. No operation is in flight.
    pub(crate) fn restart(&self, position: LogPosition, log_generation: LogGeneration) {
        self.appender.restart(position, Salt::new(self.welcome.store, self.welcome.session, log_generation));
        self.publish_log_generation(log_generation);
        self.kicked.store(position.0, Ordering::Relaxed);
        // SharedFS has digested the entries that it accepted. The rest are void.
        let digested = self.notice.page().digested_entries.load(Ordering::Relaxed);
        self.appender.recount(digested);
        self.entries_kicked.store(digested, Ordering::Relaxed);
        *self.report.lock() = None;
        self.report_state.store(REPORT_NONE, Ordering::Relaxed);
        self.set_retired(position);
    }

    /// Whether a fence took leases that this session still has in its cache.
    pub(crate) fn is_fenced(&self) -> bool {
        self.shown_generation() != self.generation.load(Ordering::Acquire)
    }

    /// Gives back the charge for an entry that was not appended.
    #[inline]
    pub(crate) fn give_back_charge(&self, charged: Option<(Payers, Amounts)>) {
        if let Some((payers, amounts)) = charged {
            self.quotas.give_back(payers, amounts);
        }
    }
}

impl Deliver for Session {
    fn deliver(&self, subject: Subject, answer: Result<Response, Error>) {
        match subject {
            Subject::Credit => self.credit.deliver_blocks(&answer, self.geometry().nvm_bytes),
            // If none came, the thread that needs a number asks again, and gets the reason.
            Subject::Numbers => drop(self.credit.deliver_numbers(&answer, None)),
            Subject::Report => match answer {
                Ok(Response::Report(report)) => {
                    *self.report.lock() = Some(report);
                    self.report_state.store(REPORT_HERE, Ordering::Relaxed);
                }
                _ => self.report_state.store(REPORT_NONE, Ordering::Relaxed),
            },
            // A parcel that cannot be read is dropped. A thread that needs the inode asks for it, and gets
            // the reason.
            Subject::Ahead => {
                if let Ok(Response::Ahead(parcel)) = answer {
                    let _ = self.parcel_store.add(parcel);
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
