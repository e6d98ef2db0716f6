//! The daemon's state while a store is open.

use crate::boot::Boot;
use crate::catching_up::CatchingUp;
use crate::configuration::Options;
use crate::damage::ToldDamage;
use crate::digest::policy::{self, Backlog};
use crate::digest::{Digester, Space, Storage};
use crate::ending::Ending;
use crate::idle_memory::IdleMemory;
use crate::kernel_caches::Doubt;
use crate::leases::Leases;
use crate::lost::Lost;
use crate::mapped::MappedFiles;
use crate::metadata::{Files, MetadataError, MetadataStore, Owner, Watch};
use crate::observe::{Counters, Events, RequestTimes};
use crate::pace::Pace;
use crate::passed::PassedFiles;
use crate::quotas::Quotas;
use crate::recovery::Recovered;
use crate::requests::Packed;
use crate::sessions::{
    Control, Incarnation, MarksFile, Presence, References, Segment, SegmentPool, Session, SessionTable,
};
use crate::stand_ins::StandIns;
use crate::superblocks::Superblocks;
use crate::tiers::{
    ArenaStamps, Arenas, Credits, Needed, Parts, Region, lost_arenas, medium_of_files, mend_arenas, region,
};
use crate::{Error, check, emulation, recovery};
use cuesta_format::emulation::Profile;
use cuesta_format::event::Step;
use cuesta_format::geometry::METADATA_FILE;
use cuesta_format::session_table::{SessionRecord, TableHead};
use cuesta_format::superblock::Superblock;
use cuesta_format::wire::Welcome;
use cuesta_format::{Geometry, InodeNumber, LeaseGeneration, LogGeneration, LogPosition, Medium, SessionId};
use cuesta_media::emulate::Emulated;
use cuesta_media::{Node, Nodes, persist};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Session numbers are taken from the table's head in such steps.
const SESSION_STEP: u64 = 64;

/// What the daemon knows of its sessions; behind one lock, held for moments.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) table: SessionTable,
    pub(crate) pool: SegmentPool,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) leases: Leases,
    next_session: SessionId,
}

impl Core {
    /// Where a spare segment is lacking, if `ready` are to be ready and `kept` are enough: on which node, or on any.
    pub(crate) fn lacking(&self, nodes: &Nodes, ready: usize, kept: usize) -> Option<Option<Node>> {
        self.pool.spare().lacking(&self.nodes_in_use(nodes), ready, kept)
    }

    /// The nodes that sessions are on; while there are none, those that a program can run on.
    pub(crate) fn nodes_in_use(&self, nodes: &Nodes) -> BTreeSet<Node> {
        if !nodes.are_several() {
            return BTreeSet::new();
        }
        let in_use: BTreeSet<Node> = self.sessions.values().filter_map(|session| session.node).collect();
        if in_use.is_empty() { nodes.all().collect() } else { in_use }
    }
}

/// An open store.
pub struct SharedFs {
    pub(crate) tier: PathBuf,
    pub(crate) parts: Arc<Parts>,
    pub(crate) superblock: Superblock,
    /// As its copies say it, with the opening this is.
    pub(crate) superblocks: Mutex<Superblocks>,
    /// The medium that is played on the store's own.
    pub(crate) emulated: Option<Arc<Emulated>>,
    /// The persistent memory the tier is on.
    pub(crate) region: Option<Region>,
    /// The memory nodes that logs can be placed on.
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) incarnation: Incarnation,
    pub(crate) marks: MarksFile,
    pub(crate) references: References,
    pub(crate) passed: Mutex<PassedFiles>,
    pub(crate) mapped: MappedFiles,
    pub(crate) options: Options,
    pub(crate) metadata: MetadataStore,
    /// What of it is sent again and again.
    pub(crate) packed: Arc<Packed>,
    pub(crate) catching_up: CatchingUp,
    pub(crate) lost: Lost,
    pub(crate) arenas: Arenas,
    pub(crate) stand_ins: StandIns,
    pub(crate) digester: Mutex<Digester>,
    pub(crate) core: Mutex<Core>,
    /// Control pages of sessions to come.
    pub(crate) controls: Mutex<Vec<Control>>,
    pub(crate) space: Mutex<Space>,
    pub(crate) quotas: Mutex<Quotas>,
    /// Digests of everything for totals, which anybody may ask for.
    pub(crate) looking: Pace,
    pub(crate) events: Events,
    pub(crate) counters: Counters,
    pub(crate) idle_memory: IdleMemory,
    pub(crate) request_times: RequestTimes,
    pub(crate) opened: Instant,
    pub(crate) doubt: Doubt,
    pub(crate) told_damage: ToldDamage,
    pub(crate) recovered: Recovered,
    pub(crate) making: Mutex<()>,
    /// Held by who begins a session; and by who needs that nobody does.
    pub(crate) attaching: RwLock<()>,
    recovering: AtomicBool,
    /// A digest runs.
    pub(crate) digests: AtomicBool,
    /// When a session was last given what another one was fenced for.
    pub(crate) attended_at: Mutex<Option<Instant>>,
    /// Inodes without a name that are kept while it can be seen that somebody has them open.
    pub(crate) watched_orphans: AtomicU64,
    /// When a digest last found the medium full.
    pub(crate) starved: Mutex<Option<Instant>>,
}

/// What the server keeps of a session.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    /// Its number.
    pub session: SessionId,
    /// Its pages and the eventfd it kicks.
    pub control: Arc<Control>,
}

/// What a step of the digest did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A batch went into the shared area.
    Digested {
        /// Whose.
        session: SessionId,
        /// Bytes of its log.
        bytes: u64,
    },
    /// Something was made ready for later.
    Prepared,
    /// There is nothing to do.
    Idle,
}

impl std::fmt::Debug for SharedFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedFs").field("tier", &self.tier).finish_non_exhaustive()
    }
}

impl SharedFs {
    /// Opens the store in `tier` and digests whatever logs still hold: afterwards no session is left but those of
    /// processes that live and may come back ([`SharedFs::resume`]).
    pub fn open(tier: &Path, options: Options) -> Result<Arc<SharedFs>, Error> {
        SharedFs::open_named(tier, tier, options)
    }

    /// The same by a path that may mean something to this process alone; others find the tier at `named`.
    pub fn open_named(tier: &Path, named: &Path, options: Options) -> Result<Arc<SharedFs>, Error> {
        if check::is_untold(tier) {
            return Err(Error::Repairing);
        }
        SharedFs::open_untold(tier, named, options)
    }

    /// The same by a repair, which tells what it loses when it has ended.
    pub(crate) fn open_untold(tier: &Path, named: &Path, options: Options) -> Result<Arc<SharedFs>, Error> {
        let mut superblocks = Superblocks::read(tier)?;
        superblocks.heal(tier)?;
        let superblock = superblocks.superblock;
        let Superblock { medium, geometry, .. } = superblock;
        let region = match medium {
            Medium::Pmem => region(tier),
            Medium::Memory | Medium::Block => None,
        };
        persist::announce(medium, options.persistence_domain.of(region));
        // Only this medium's memory is the kernel's to choose.
        let nodes = if medium == Medium::Memory { Nodes::of_machine() } else { Nodes::default() };
        let nodes = Arc::new(nodes);
        let parts = Parts::open(tier, superblock.store, &geometry)?;
        let medium_of_files = medium_of_files(tier, medium);
        let (mut table, occupied) =
            SessionTable::open(tier, geometry.ring_slots, superblock.store, medium_of_files)?;
        let boot = Boot::of(tier, table.head().boot);
        let emulated = emulation::begin(tier, medium, options.emulate)?;
        let incarnation = Incarnation::begin(tier, table.head().incarnation)?;
        table.set_head(TableHead {
            store: superblock.store,
            incarnation: incarnation.number(),
            ..table.head()
        })?;
        let marks = MarksFile::of(tier);
        marks.provide(medium)?;
        let references = References::open(tier)?;
        let mapped = MappedFiles::open(references.folder()?, medium_of_files)?;
        let cache_bytes = options.metadata_cache_bytes;
        let owner = Owner { store: superblock.store, now: superblocks.opening };
        let files = Files::new(&tier.join(METADATA_FILE), medium_of_files).of(owner);
        let metadata = MetadataStore::open_caching(files, cache_bytes)?;
        let packed = Arc::new(Packed::default());
        metadata.watch(Arc::clone(&packed) as Arc<dyn Watch>);
        let owned = occupied.iter().flat_map(|(_, record)| record.all_segments()).collect();
        let pool = SegmentPool::open(&parts, &geometry, &owned, &nodes)?;
        let written_in = metadata.read()?.arenas_written_in()?;
        let needed = Needed { store: superblock.store, written_in: &written_in };
        mend_arenas(tier, &geometry, &needed, &lost_arenas(&parts, &geometry, &needed)?)?;
        let arenas = Arenas::open(&parts, geometry, medium, &nodes)?;
        let generation = superblocks.opening.generation + 1;
        arenas.stamp(ArenaStamps::new(superblock.store, generation, &geometry));
        if let Some(emulated) = &emulated {
            metadata.emulate(emulated);
            table.emulate(emulated);
            arenas.emulate(emulated);
        }
        let allocator = recovery::load_allocator(&metadata, &arenas, geometry)?;
        let blocks = u64::from(geometry.arenas_max()) * u64::from(geometry.arena_blocks());
        let next_session = table.head().next_session;
        let stand_ins = StandIns::open(tier, named)?;
        let quotas = Quotas::open(&metadata.read()?)?;
        let mut shared = SharedFs {
            tier: tier.to_owned(),
            parts,
            superblock,
            superblocks: Mutex::new(superblocks),
            emulated,
            region,
            nodes,
            incarnation,
            marks,
            references,
            passed: Mutex::default(),
            mapped,
            metadata,
            packed,
            catching_up: CatchingUp::default(),
            lost: Lost::open(tier)?,
            arenas,
            stand_ins,
            digester: Mutex::default(),
            core: Mutex::new(Core {
                table,
                pool,
                sessions: BTreeMap::new(),
                leases: Leases::new(Duration::from_micros(options.lease_hold_us)).shipping(options.ship),
                next_session,
            }),
            controls: Mutex::default(),
            space: Mutex::new(Space { allocator, credits: Credits::new(blocks) }),
            quotas: Mutex::new(quotas),
            looking: Pace::default(),
            events: Events::new(options.trace_events as usize),
            options,
            counters: Counters::default(),
            idle_memory: IdleMemory::default(),
            request_times: RequestTimes::default(),
            opened: Instant::now(),
            doubt: Doubt::left_in(tier),
            told_damage: ToldDamage::default(),
            recovered: Recovered::default(),
            making: Mutex::new(()),
            attaching: RwLock::new(()),
            recovering: AtomicBool::new(true),
            digests: AtomicBool::new(false),
            attended_at: Mutex::default(),
            watched_orphans: AtomicU64::new(0),
            starved: Mutex::default(),
        };
        shared.recovered = shared.recover(occupied, boot.is_another())?;
        boot.remember(tier)?;
        let core = shared.core.get_mut();
        core.table.set_head(TableHead { boot: boot.short_name(), ..core.table.head() })?;
        shared.say_opened()?;
        shared.recovering = AtomicBool::new(false);
        shared.stand_ins.sweep(&shared.metadata)?;
        shared.mapped.sweep(&shared.metadata)?;
        Ok(Arc::new(shared))
    }

    /// The sizes.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.superblock.geometry
    }

    /// The store's superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// What is asked of the medium that is played on the store's own.
    pub(crate) fn profile(&self) -> Option<Profile> {
        self.emulated.as_ref().map(|emulated| emulated.profile())
    }

    /// The configuration it runs with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What recovery found when the store was opened.
    #[must_use]
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Begins a session. Descriptors: notice page, client page, eventfd, incarnation page, references folder, and
    /// what is shared of a medium that is played, if one is.
    pub fn attach(&self, pid: u32, program: &str) -> Result<(SessionHandle, Welcome, Vec<OwnedFd>), Error> {
        let _attaching = self.attaching.read();
        let ready = self.controls.lock().pop();
        let control = Arc::new(ready.map_or_else(Control::new, Ok)?);
        let [notice, client, kick] = control.descriptors()?;
        let incarnation = self.incarnation.descriptor()?;
        let mut descriptors = vec![notice, client, kick, incarnation, self.references.descriptor()?];
        if self.emulated.is_some() {
            descriptors.push(emulation::channels(&self.tier)?);
        }
        let mut core = self.core.lock();
        let id = core.next_session;
        if id >= core.table.head().next_session {
            let mut head = core.table.head();
            head.next_session = SessionId(id.0 + SESSION_STEP);
            core.table.set_head(head)?;
        }
        let record = SessionRecord {
            session: id,
            pid,
            log_generation: LogGeneration(1),
            lease_generation: LeaseGeneration(1),
            start: LogPosition(0),
            ended: false,
            away_below: InodeNumber::NONE,
            segments: Vec::new(),
            commit_file: None,
        };
        core.next_session = SessionId(id.0 + 1);
        let (inode_first, inode_count) = self.grant_numbers(&mut core, id, self.options.inode_numbers)?;
        // Last, for nothing may fail behind it: the slot is the session's from here on.
        let slot = match core.table.occupy(&record) {
            Ok(Some(slot)) => slot,
            failed => {
                core.leases.end_session(id);
                return Err(failed.err().unwrap_or(Error::TooManySessions));
            }
        };
        let welcome = self.welcome(&record, (inode_first, inode_count));
        let program = program.to_owned();
        let session = new_session(pid, program, slot, record, Vec::new(), Arc::clone(&control));
        session.publish(&self.options);
        session.control.publish_quotas(self.quotas.lock().shown());
        core.sessions.insert(id, session);
        self.share_out_entries(&core.sessions);
        drop(core);
        self.events.record(Step::Attach { session: id, pid });
        Ok((SessionHandle { session: id, control }, welcome, descriptors))
    }

    /// A session of an earlier daemon goes on: its process has come back. Descriptors as for [`SharedFs::attach`], but
    /// for the last, which it has, or goes on without.
    pub fn resume(
        &self,
        session: SessionId,
        pid: u32,
        program: &str,
    ) -> Result<(SessionHandle, Welcome, Vec<OwnedFd>), Error> {
        let incarnation = self.incarnation.descriptor()?;
        let references = self.references.descriptor()?;
        let mut core = self.core.lock();
        let is_away = |found: &&mut Session| matches!(found.presence, Presence::Away(_)) && found.pid == pid;
        let Some(found) = core.sessions.get_mut(&session).filter(is_away) else {
            return Err(Error::NoSession);
        };
        let control = Arc::clone(&found.control);
        let [notice, client, kick] = control.descriptors()?;
        let numbers = self.grant_numbers(&mut core, session, self.options.inode_numbers)?;
        let Core { sessions, table, .. } = &mut *core;
        let Some(found) = sessions.get_mut(&session) else { return Err(Error::NoSession) };
        // Before it can open anything: when this daemon has died, that may be whatever there was then.
        found.record.away_below = InodeNumber::NONE;
        table.write(found.slot, &found.record)?;
        found.control.publish_quotas(self.quotas.lock().shown());
        found.presence = Presence::Returning;
        program.clone_into(&mut found.program);
        let welcome = self.welcome(&found.record, numbers);
        self.share_out_entries(&core.sessions);
        drop(core);
        self.events.record(Step::Attach { session, pid });
        let descriptors = vec![notice, client, kick, incarnation, references];
        Ok((SessionHandle { session, control }, welcome, descriptors))
    }

    fn welcome(&self, record: &SessionRecord, (inode_first, inode_count): (InodeNumber, u32)) -> Welcome {
        Welcome {
            store: self.superblock.store,
            medium: self.superblock.medium,
            emulated: self.profile(),
            persistence_domain: self.options.persistence_domain.of(self.region),
            geometry: self.superblock.geometry,
            session: record.session,
            log_generation: record.log_generation,
            start: record.start,
            lease_generation: record.lease_generation,
            incarnation: self.incarnation.number(),
            commit_file_waits: self.options.commit_file_waits,
            awake_us: self.options.awake_us,
            inode_first,
            inode_count,
            stand_ins: self.stand_ins.named().as_os_str().as_encoded_bytes().to_vec(),
            ahead: Vec::new(),
        }
    }

    /// The processes whose sessions have not come back yet.
    #[must_use]
    pub fn awaited(&self) -> Vec<(SessionId, Arc<OwnedFd>)> {
        let core = self.core.lock();
        let away = |(&session, found): (&SessionId, &Session)| match &found.presence {
            Presence::Away(process) => Some((session, Arc::clone(process))),
            Presence::Here | Presence::Returning => None,
        };
        core.sessions.iter().filter_map(away).collect()
    }

    /// Tells each session how many entries it may leave undigested, now that there are more or fewer of them.
    pub(crate) fn share_out_entries(&self, sessions: &BTreeMap<SessionId, Session>) {
        let share = policy::entries_share(&self.options, sessions.len());
        sessions.values().for_each(|session| session.control.publish_entries_max(share));
    }

    /// Inode numbers that were never given before, durably taken.
    pub(crate) fn grant_numbers(
        &self,
        core: &mut Core,
        session: SessionId,
        count: u32,
    ) -> Result<(InodeNumber, u32), Error> {
        let mut head = core.table.head();
        let first = head.inode_limit;
        head.inode_limit = InodeNumber(first.0 + u64::from(count));
        core.table.set_head(head)?;
        core.leases.grant_numbers(session, first, count);
        Ok((first, count))
    }

    pub(crate) fn storage(&self) -> Storage<'_> {
        Storage {
            medium: self.superblock.medium,
            geometry: self.superblock.geometry,
            metadata: &self.metadata,
            arenas: &self.arenas,
            space: &self.space,
            stand_ins: &self.stand_ins,
            mapped: &self.mapped,
            catching_up: &self.catching_up,
            lost: &self.lost,
            others: self,
            recovering: self.recovering.load(Ordering::Relaxed),
        }
    }

    /// Tells the trace how far a session's log has grown: once a kick, not once an entry.
    pub(crate) fn note_growth(&self, session: SessionId) {
        let completed = {
            let mut core = self.core.lock();
            let Some(found) = core.sessions.get_mut(&session) else { return };
            self.references.note_new(found.control.new_lock_files());
            let completed = found.completed();
            if std::mem::replace(&mut found.traced, completed) >= completed {
                return;
            }
            completed
        };
        self.events.record(Step::Append { session, completed });
    }

    /// What each log holds that is not digested.
    #[must_use]
    pub fn backlogs(&self) -> Vec<Backlog> {
        self.core.lock().sessions.values().map(|found| found.backlog(&self.options)).collect()
    }

    /// What a session's log holds that is not digested; 0 if there is no such session.
    #[must_use]
    pub fn pending_bytes(&self, session: SessionId) -> u64 {
        self.core.lock().sessions.get(&session).map_or(0, Session::undigested_bytes)
    }

    /// The daemon leaves: every log is digested to its end. Sessions of processes that may come back to the next daemon
    /// stay in the table, the others end.
    pub fn stop(&self) -> Result<(), Error> {
        let sessions: Vec<(SessionId, u32, Option<Ending>)> = {
            let core = self.core.lock();
            core.sessions.values().map(|found| (found.id, found.pid, found.ending)).collect()
        };
        // Those for which there is no room are found by the next daemon; others have what they need all the same.
        let mut full = Ok(());
        for (session, pid, ending) in sessions {
            let stopped = match ending {
                None if self.may_come_back(pid).is_some() => self.suspend(session),
                ending => self.end_session(session, ending.unwrap_or(Ending::GivenUp)),
            };
            match stopped {
                Err(Error::NoSpace) => full = Err(Error::NoSpace),
                stopped => stopped?,
            }
        }
        // Without room it stays where it is, which is as good; as it does where nothing is written any more.
        match self.metadata.write_out() {
            Err(MetadataError::NoSpace) => full,
            Err(_) if self.metadata.is_read_only() => full,
            written => full.and(written.map_err(Error::from)),
        }
    }

    /// Closes the store for good, behind the digest that there may be: it is the next daemon's. Whoever still holds this
    /// changes nothing any more, and ends no session, which that one may have: [`MetadataError::Left`].
    pub fn leave(&self) {
        let _digester = self.digester.lock();
        if self.is_left() {
            return;
        }
        self.metadata.leave();
        self.events.close();
        self.core.lock().table.leave();
        if let Err(error) = self.say_closed() {
            tracing::warn!(%error, "that the store was left in order cannot be noted");
        }
    }

    /// Whether it was left.
    pub(crate) fn is_left(&self) -> bool {
        self.metadata.is_left()
    }
}

pub(crate) fn new_session(
    pid: u32,
    program: String,
    slot: u32,
    record: SessionRecord,
    segments: Vec<Segment>,
    control: Arc<Control>,
) -> Session {
    Session {
        id: record.session,
        pid,
        presence: Presence::Here,
        node: None,
        program,
        slot,
        lease_generation: record.lease_generation,
        digested: record.start,
        digesting: record.start,
        digested_entries: 0,
        traced: record.start,
        record,
        segments,
        commit_file: None,
        control,
        credit_limit: 0,
        debited: 0,
        reports: VecDeque::new(),
        revoked: BTreeMap::new(),
        revoked_all: false,
        untold: BTreeSet::new(),
        looked_at: BTreeMap::new(),
        turns: BTreeMap::new(),
        lingering: VecDeque::new(),
        cut: None,
        attended: false,
        ending: None,
        kernel: None,
    }
}
