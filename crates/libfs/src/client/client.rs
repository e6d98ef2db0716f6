//! One session of a process: the struct that every call starts from, and its beginning and end.
//!
//! `Client` only holds the state of the rooms below it. Each call is an `impl Client` block in the room of
//! its family (`calls`, `mapped`, `mount`, `sharing`), and runs by [`Client::operate`].

use crate::cache::access_times::Accesses;
use crate::cache::inodes::Cache;
use crate::cache::programs::Programs;
use crate::client::retries::GiveUpPolicy;
use crate::errno::Error;
use crate::leases::ahead::Ahead;
use crate::leases::fences::Fences;
use crate::log::commit_file::CommitFile;
use crate::log::retire_round::RetireRound;
use crate::log::windows::Windows;
use crate::mapped::kept_descriptors::{Keeper, KeptDescriptors};
use crate::mount::state::KernelState;
use crate::session::link::{Link, SocketLink};
use crate::session::patience::{RESUME_WAIT, Starter, patiently};
use crate::session::session::Session;
use crate::sharing::dependencies::Dependencies;
use crate::sharing::name_changes::NameChanges;
use crate::sharing::shipped::Shipping;
use crate::steering::destination::TIER_BELOW;
use crate::steering::synchronicity::Habit;
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, RwLock};
use cuesta_format::durability::DurabilityWish;
use cuesta_format::wire::Request;
use cuesta_format::{FILE_BYTES_MAX, InodeNumber, LogPosition, StoreId, TierNumber};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::time::Duration;

/// One session of a process.
pub struct Client {
    pub(crate) session: Session,
    pub(crate) cache: Cache,
    pub(crate) ahead: Ahead,
    pub(crate) retiring: Mutex<RetireRound>,
    /// Truncations and clearings in the log whose zeros overlays still hold. Locked under an inode's lock,
    /// never over one.
    pub(crate) truncations: Mutex<VecDeque<(LogPosition, InodeNumber)>>,
    /// The field `retiring` is within a round, readable without its lock.
    pub(crate) in_round: AtomicBool,
    pub(crate) fences: Mutex<Fences>,
    /// Operations hold it open (shared). A thread that closes it (exclusive) may throw cached state away,
    /// since no operation runs.
    pub(crate) gate: RwLock<()>,
    /// Held while a directory moves to another parent, so that the tree above it holds still.
    pub(crate) moving: Mutex<()>,
    pub(crate) next_passed: AtomicU64,
    /// No file grows beyond this.
    file_limit: AtomicU64,
    pub(crate) programs: Programs,
    pub(crate) kept_descriptors: KeptDescriptors,
    pub(crate) commit_file: CommitFile,
    pub(crate) windows: Windows,
    /// Those of the tier below the fast one.
    pub(crate) lower_windows: Windows,
    pub(crate) dependencies: Dependencies,
    /// The number of the daemon that the session talks to, counted from its first.
    pub(crate) connection: AtomicU32,
    /// How long to wait for the next daemon. The thread that waits holds the lock.
    pub(crate) patience: Mutex<Duration>,
    abandoned: AtomicU32,
    pub(crate) give_up_policy: GiveUpPolicy,
    pub(crate) starter: Starter,
    /// The program's name in `cuesta status`.
    pub(crate) program: Box<str>,
    pub(crate) kernel: KernelState,
    /// The policy for times of last access, as bits.
    pub(crate) access_times: AtomicU32,
    pub(crate) accesses: Accesses,
    pub(crate) shipping: Shipping,
    /// The store has lower tiers, so the session predicts writes.
    pub(crate) steers: bool,
    /// Whether the session's new files are synced soon.
    pub(crate) sync_habit: Habit,
    /// Threads of this session may execute calls of other processes ([`crate::tagged`]).
    pub(crate) has_callers: AtomicBool,
    pub(crate) name_changes: NameChanges,
}

impl Client {
    /// Attaches to SharedFS over `link`. `program` is shown by `cuesta status`.
    pub fn attach(link: Box<dyn Link>, program: &str) -> Result<Arc<Client>, Error> {
        Client::attach_at(link, program, InodeNumber::NONE)
    }

    /// Like [`Client::attach`]. The answer brings leases on `first` and on the directories above it, which
    /// saves later questions.
    pub fn attach_at(link: Box<dyn Link>, program: &str, first: InodeNumber) -> Result<Arc<Client>, Error> {
        Client::attach_wishing(link, program, first, DurabilityWish::NONE)
    }

    /// Like [`Client::attach_at`]. The calls of the session that ask for durability return when `wish` says.
    pub fn attach_wishing(
        link: Box<dyn Link>,
        program: &str,
        first: InodeNumber,
        wish: DurabilityWish,
    ) -> Result<Arc<Client>, Error> {
        let mut session = Session::attach(link, program, first, wish)?;
        let ahead = std::mem::take(&mut session.welcome.ahead);
        let steers = session.welcome.lower_tiers > 0;
        let sync_habit = session.habit_before();
        let client = Arc::new(Client {
            retiring: Mutex::new(RetireRound::new(session.retired())),
            truncations: Mutex::new(VecDeque::new()),
            in_round: AtomicBool::new(false),
            session,
            cache: Cache::new(),
            ahead: Ahead::default(),
            fences: Mutex::new(Fences::default()),
            gate: RwLock::new(()),
            moving: Mutex::new(()),
            next_passed: AtomicU64::new(0),
            file_limit: AtomicU64::new(FILE_BYTES_MAX),
            programs: Programs::default(),
            kept_descriptors: KeptDescriptors::default(),
            commit_file: CommitFile::default(),
            windows: Windows::of(TierNumber::FAST),
            lower_windows: Windows::of(TIER_BELOW),
            dependencies: Dependencies::default(),
            connection: AtomicU32::new(0),
            patience: Mutex::new(RESUME_WAIT),
            abandoned: AtomicU32::new(0),
            give_up_policy: GiveUpPolicy::default(),
            starter: Starter::default(),
            program: program.into(),
            kernel: KernelState::default(),
            access_times: AtomicU32::new(0),
            accesses: Accesses::default(),
            shipping: Shipping::default(),
            steers,
            sync_habit,
            has_callers: AtomicBool::new(false),
            name_changes: NameChanges::default(),
        });
        // If a fence took any of these leases meanwhile, the first operation notices: the generation has
        // moved.
        client.session.parcel_store.add(ahead)?;
        Ok(client)
    }

    /// Attaches to the daemon that listens at `path`. If none listens, it waits for one as long as a session
    /// waits for the next daemon. Every descriptor that the session keeps is `descriptor_floor` or higher.
    pub fn attach_to(
        path: &[u8],
        descriptor_floor: i32,
        program: &str,
        first: InodeNumber,
        wish: DurabilityWish,
    ) -> Result<Arc<Client>, Error> {
        patiently(RESUME_WAIT, || {
            let link = SocketLink::connect(path, descriptor_floor)?;
            Client::attach_wishing(Box::new(link), program, first, wish)
        })
    }

    /// Ends the session in order. Later calls fail. All writes are safe even without this.
    pub fn detach(&self) {
        if self.abandoned.swap(1, Ordering::AcqRel) == 0 {
            let _closed = self.gate.write();
            if let Some(accesses) = self.last_accesses() {
                let _ = self.session.ask(&accesses);
            }
            // If the daemon is gone, its successor recovers the log all the same.
            let _ = self.session.ask(&Request::Detach);
        }
    }

    /// Like [`Client::detach`], as the process ends: it does not wait for SharedFS to do its part.
    pub fn part(&self) {
        if self.abandoned.swap(1, Ordering::AcqRel) == 0 {
            let _closed = self.gate.write();
            if let Some(accesses) = self.last_accesses() {
                self.session.requests.send_last(&accesses);
            }
            self.session.requests.send_last(&Request::Detach);
        }
    }

    /// Gives the session up in a child of fork, because it is the parent's. Call before anything else. Every
    /// later call on this client fails, sends nothing and stores nothing. The child opens its files again by
    /// [`Client::reopen`] on a client of its own. The mappings and descriptors go with the last reference to
    /// this client.
    pub fn after_fork_in_child(&self) {
        self.abandoned.store(1, Ordering::Release);
        self.session.open_slots.abandon();
    }

    /// The numbers of the descriptors that this session keeps open. The program must not close them.
    pub fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.session.descriptors()
    }

    /// Replaces the descriptor `number` by `copy`, and answers the old descriptor, which may be closed. If
    /// `number` is not this session's, it answers `copy`. No operation may run meanwhile.
    pub fn replace_descriptor(&self, number: i32, copy: OwnedFd) -> OwnedFd {
        self.session.replace_descriptor(number, self.kept_descriptors.replace(number, copy))
    }

    /// Sets how the session keeps descriptors that it opens while it runs.
    pub fn keep_descriptors(&self, keeper: Keeper) {
        self.kept_descriptors.keep_by(keeper);
    }

    /// From now on no file grows beyond `bytes` (the process's `RLIMIT_FSIZE`).
    pub fn limit_files(&self, bytes: u64) {
        self.file_limit.store(bytes.min(FILE_BYTES_MAX), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn file_limit(&self) -> u64 {
        self.file_limit.load(Ordering::Relaxed)
    }

    /// The store this session is attached to.
    #[must_use]
    pub fn store(&self) -> StoreId {
        self.session.welcome.store
    }

    /// The absolute path at which the kernel has the stand-in for a named pipe or socket of this number. A
    /// door makes the stand-in. SharedFS removes it with the inode.
    #[must_use]
    pub fn stand_in(&self, inode: InodeNumber) -> Vec<u8> {
        let mut path = self.session.welcome.stand_ins.clone();
        path.extend_from_slice(format!("/{}", inode.0).as_bytes());
        path
    }

    /// Counts a system call that the door refused because it does not serve it.
    pub fn count_unserved(&self, system_call: usize) {
        self.session.count_unserved(system_call);
    }

    #[inline]
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        if self.abandoned.load(Ordering::Relaxed) != 0 {
            return Err(Error::Disconnected);
        }
        Ok(())
    }
}
