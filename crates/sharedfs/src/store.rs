//! The store as a whole: making it, and the daemon's state while it is open.

use crate::configuration::Options;
use crate::digest::policy::{self, Backlog};
use crate::digest::{Batch, Digester, Space, Storage, Until};
use crate::ending::Ending;
use crate::leases::Leases;
use crate::metadata::MetadataStore;
use crate::observe::{Counters, Events, RequestTimes};
use crate::recovery::Recovered;
use crate::sessions::{
    BatchReport, Control, Incarnation, Segment, SegmentPool, Session, SessionTable, make_segment,
};
use crate::tiers::{Arenas, Credits};
use crate::{Error, recovery};
use cuesta_format::event::Step;
use cuesta_format::geometry::{ARENAS_FOLDER, LOGS_FOLDER, METADATA_FILE, SESSIONS_FILE, SUPERBLOCK_FILE};
use cuesta_format::session_table::SessionRecord;
use cuesta_format::superblock::{SUPERBLOCK_BYTES, Superblock};
use cuesta_format::wire::Welcome;
use cuesta_format::{
    FileKind, Geometry, InodeNumber, InodeRecord, LeaseGeneration, LogGeneration, LogPosition, SessionId,
    Timestamp,
};
use cuesta_media::Mapping;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Session numbers are taken from the table's head in such steps.
const SESSION_STEP: u64 = 64;
/// Room the metadata store must have before more space is promised.
const METADATA_SLACK_BYTES: u64 = 16 << 20;
/// Room it must have for a digest to begin.
const METADATA_SLACK_LEAST_BYTES: u64 = 2 << 20;
/// Most bytes a byte of log makes it grow by: the smallest entries (a name of a few bytes) make the most of it.
const METADATA_GROWTH: u64 = 3;

/// What the daemon knows of its sessions; behind one lock, held for moments.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) table: SessionTable,
    pub(crate) pool: SegmentPool,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) leases: Leases,
    next_session: SessionId,
}

/// An open store.
pub struct SharedFs {
    pub(crate) tier: PathBuf,
    pub(crate) superblock: Superblock,
    incarnation: Incarnation,
    pub(crate) options: Options,
    pub(crate) metadata: MetadataStore,
    pub(crate) arenas: Arenas,
    pub(crate) digester: Mutex<Digester>,
    pub(crate) core: Mutex<Core>,
    pub(crate) space: Mutex<Space>,
    pub(crate) events: Events,
    pub(crate) counters: Counters,
    pub(crate) request_times: RequestTimes,
    pub(crate) opened: Instant,
    pub(crate) recovered: Recovered,
    making: Mutex<()>,
    recovering: AtomicBool,
    failed: AtomicBool,
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

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("sync a folder"))
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(since.as_secs() as i64, since.subsec_nanos())
}

/// Reads and checks a store's superblock.
pub(crate) fn read_superblock(tier: &Path) -> Result<Superblock, Error> {
    match std::fs::read(tier.join(SUPERBLOCK_FILE)) {
        Ok(bytes) => Ok(Superblock::decode(&bytes)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::NoStore(tier.display().to_string()))
        }
        Err(error) => Err(Error::io("read the superblock")(error)),
    }
}

impl std::fmt::Debug for SharedFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedFs").field("tier", &self.tier).finish_non_exhaustive()
    }
}

impl SharedFs {
    /// Makes a store's fast tier in `tier`, a folder that holds none. The superblock comes last: without it
    /// there is no store.
    pub fn create(tier: &Path, superblock: Superblock) -> Result<(), Error> {
        if tier.join(SUPERBLOCK_FILE).exists() {
            return Err(Error::Exists(tier.display().to_string()));
        }
        let Superblock { medium, geometry, .. } = superblock;
        for folder in [LOGS_FOLDER, ARENAS_FOLDER] {
            let folder = tier.join(folder);
            if folder.exists() {
                std::fs::remove_dir_all(&folder).map_err(Error::io("remove what an unfinished mkfs left"))?;
            }
            std::fs::create_dir_all(&folder).map_err(Error::io("create a folder"))?;
        }
        for file in [SESSIONS_FILE, METADATA_FILE] {
            match std::fs::remove_file(tier.join(file)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove what an unfinished mkfs left")(error));
                }
                _ => {}
            }
        }
        SessionTable::create(&tier.join(SESSIONS_FILE), geometry.ring_slots, medium)?;
        let metadata = MetadataStore::create(&tier.join(METADATA_FILE), medium)?;
        let mut transaction = metadata.begin()?;
        let mode = FileKind::Directory.mode_bits() | 0o755;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut root = InodeRecord::new(InodeNumber::ROOT, mode, uid, gid, now());
        root.parent = InodeNumber::ROOT;
        transaction.put_inode(&root)?;
        transaction.commit()?;
        drop(metadata);
        sync_folder(tier)?;
        let path = tier.join(SUPERBLOCK_FILE);
        let mapping = Mapping::create(&path, SUPERBLOCK_BYTES as u64, medium, false)?;
        mapping.write_through(0, &superblock.encode()[..])?;
        mapping.fence();
        sync_folder(tier)
    }

    /// Opens the store in `tier` and digests whatever logs still hold: afterwards no session is left.
    pub fn open(tier: &Path, options: Options) -> Result<Arc<SharedFs>, Error> {
        let superblock = read_superblock(tier)?;
        let Superblock { medium, geometry, .. } = superblock;
        let incarnation = Incarnation::begin(tier)?;
        let metadata = MetadataStore::open(&tier.join(METADATA_FILE), medium)?;
        let (table, occupied) = SessionTable::open(&tier.join(SESSIONS_FILE), geometry.ring_slots, medium)?;
        let owned = occupied.iter().flat_map(|(_, record)| record.segments.iter().copied()).collect();
        let pool = SegmentPool::open(tier, &geometry, medium, &owned)?;
        let arenas = Arenas::open(tier, geometry, medium)?;
        let allocator = recovery::load_allocator(&metadata, &arenas, geometry)?;
        let blocks = u64::from(geometry.arenas_max()) * u64::from(geometry.arena_blocks());
        let next_session = table.head().next_session;
        let mut shared = SharedFs {
            tier: tier.to_owned(),
            superblock,
            incarnation,
            metadata,
            arenas,
            digester: Mutex::default(),
            core: Mutex::new(Core {
                table,
                pool,
                sessions: BTreeMap::new(),
                leases: Leases::new(Duration::from_micros(options.lease_hold_us)),
                next_session,
            }),
            space: Mutex::new(Space { allocator, credits: Credits::new(blocks) }),
            events: Events::new(options.trace_events as usize),
            options,
            counters: Counters::default(),
            request_times: RequestTimes::default(),
            opened: Instant::now(),
            recovered: Recovered::default(),
            making: Mutex::new(()),
            recovering: AtomicBool::new(true),
            failed: AtomicBool::new(false),
        };
        shared.recovered = shared.recover(occupied)?;
        shared.recovering = AtomicBool::new(false);
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

    /// Begins a session. Descriptors: notice page, client page, eventfd, incarnation page.
    pub fn attach(&self, pid: u32, program: &str) -> Result<(SessionHandle, Welcome, [OwnedFd; 4]), Error> {
        let control = Arc::new(Control::new()?);
        let [notice, client, kick] = control.descriptors()?;
        let descriptors = [notice, client, kick, self.incarnation.descriptor()?];
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
            segments: Vec::new(),
        };
        let slot = core.table.take_free().ok_or(Error::TooManySessions)?;
        core.table.write(slot, &record)?;
        core.next_session = SessionId(id.0 + 1);
        let (inode_first, inode_count) = self.grant_numbers(&mut core, id, self.options.inode_numbers)?;
        control.publish_generation(record.lease_generation);
        control.publish_kick_bytes(self.options.kick_bytes);
        let welcome = Welcome {
            store: self.superblock.store,
            medium: self.superblock.medium,
            geometry: self.superblock.geometry,
            session: id,
            log_generation: record.log_generation,
            start: record.start,
            lease_generation: record.lease_generation,
            incarnation: self.incarnation.number(),
            inode_first,
            inode_count,
        };
        let program = program.to_owned();
        core.sessions.insert(id, new_session(pid, program, slot, record, Vec::new(), Arc::clone(&control)));
        self.share_out_entries(&core.sessions);
        drop(core);
        self.events.record(Step::Attach { session: id, pid });
        Ok((SessionHandle { session: id, control }, welcome, descriptors))
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
            geometry: self.superblock.geometry,
            metadata: &self.metadata,
            arenas: &self.arenas,
            space: &self.space,
            recovering: self.recovering.load(Ordering::Relaxed),
        }
    }

    /// Tells the trace how far a session's log has grown: once a kick, not once an entry.
    pub(crate) fn note_growth(&self, session: SessionId) {
        let completed = {
            let mut core = self.core.lock();
            let Some(found) = core.sessions.get_mut(&session) else { return };
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
        self.core.lock().sessions.values().map(Session::backlog).collect()
    }

    /// What a session's log holds that is not digested; 0 if there is no such session.
    #[must_use]
    pub fn pending_bytes(&self, session: SessionId) -> u64 {
        self.core.lock().sessions.get(&session).map_or(0, |found| found.backlog().bytes)
    }

    /// Digests one batch of a session's log. A session whose log proves wrong is ended.
    pub fn digest_session(&self, session: SessionId) -> Result<Progress, Error> {
        let mut digester = self.digester.lock();
        let Some(batch) = self.digest_batch(&mut digester, session, Until::Completed)? else {
            return Ok(Progress::Idle);
        };
        if batch.rejected.is_some() {
            self.end(&mut digester, session, Ending::GivenUp)?;
        }
        Ok(Progress::Digested { session, bytes: batch.to.0 - batch.from.0 })
    }

    /// The daemon leaves: every session ends, its log digested to the end.
    pub fn stop(&self) -> Result<(), Error> {
        let sessions: Vec<SessionId> = self.core.lock().sessions.keys().copied().collect();
        for session in sessions {
            self.end_session(session, Ending::GivenUp)?;
        }
        Ok(())
    }

    /// Digests one batch of the longest log, if any log holds something; else makes spare segments and arenas.
    /// When to call it is the caller's: see [`policy`].
    pub fn digest_step(&self) -> Result<Progress, Error> {
        for session in policy::due(&self.backlogs(), &self.options, true) {
            if let progress @ Progress::Digested { .. } = self.digest_session(session)? {
                return Ok(progress);
            }
        }
        Ok(if self.prepare()? { Progress::Prepared } else { Progress::Idle })
    }

    /// Makes one thing ready, a segment or a step of an arena's memory. Says whether there was one to make.
    pub fn prepare(&self) -> Result<bool, Error> {
        if self.core.lock().pool.spare() < self.options.spare_segments as usize {
            let id = self.core.lock().pool.next_id();
            make_segment(&self.tier, self.superblock.geometry.segment_bytes, self.superblock.medium, id)?;
            self.core.lock().pool.add(id);
            return Ok(true);
        }
        let blocks = u64::from(self.superblock.geometry.arena_blocks());
        let spare = blocks * u64::from(self.options.spare_arenas);
        Ok(self.room() < spare && self.grow(spare)?)
    }

    /// Blocks that may be promised without making room.
    pub(crate) fn room(&self) -> u64 {
        let space = self.space.lock();
        space.credits.available(space.allocator.free_blocks())
    }

    /// Gives the arenas one step of memory more, and the metadata store room for what it will say about it, unless
    /// `enough` blocks came about meanwhile. Says whether there is more now.
    pub(crate) fn grow(&self, enough: u64) -> Result<bool, Error> {
        self.metadata.ensure_slack(METADATA_SLACK_BYTES)?;
        // Clearing memory takes milliseconds, which neither promises nor digests wait for.
        let _one_at_a_time = self.making.lock();
        if self.room() >= enough {
            return Ok(true);
        }
        let Some(grown) = self.storage().grow()? else { return Ok(false) };
        if grown.blocks.start == 0 {
            self.events.record(Step::Allocate { arena: grown.arena });
        }
        Ok(true)
    }

    /// Digests one batch of a session's log and publishes it. A log with an entry that cannot be applied is
    /// given up behind its last good entry.
    pub(crate) fn digest_batch(
        &self,
        digester: &mut Digester,
        session: SessionId,
        until: Until,
    ) -> Result<Option<Batch>, Error> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(Error::Failed);
        }
        self.make_room_for_metadata(session)?;
        let started = Instant::now();
        let log = {
            let core = self.core.lock();
            let Some(found) = core.sessions.get(&session) else { return Ok(None) };
            let numbers = InodeNumber::ROOT.0 + 1..core.table.head().inode_limit.0;
            found.log_view(self.superblock.store, self.superblock.geometry, numbers)
        };
        let digested = digester.digest(&self.storage(), &log, until, self.options.digest_batch_bytes);
        let batch = match digested {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(None),
            Err(error) => {
                // What a failed commit left of the store's memory is not known: nothing is digested any more.
                self.failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        };
        self.publish(digester, session, &batch, started);
        if let Some(why) = &batch.rejected {
            let step = Step::Reject { session, at: batch.to, why: why.to_string() };
            tracing::warn!(session = session.0, at = batch.to.0, %why, "a log is given up");
            self.events.record(step);
        }
        Ok(Some(batch))
    }

    /// Lets the metadata store grow before a transaction needs it to: one that meets a full medium half-way cannot be
    /// undone in memory. While there is some room left, deleting may go on all the same.
    fn make_room_for_metadata(&self, session: SessionId) -> Result<(), Error> {
        let batch = self.pending_bytes(session).min(self.options.digest_batch_bytes);
        match self.metadata.ensure_slack(METADATA_SLACK_LEAST_BYTES + METADATA_GROWTH * batch) {
            Err(error) if self.metadata.slack_bytes() < METADATA_SLACK_LEAST_BYTES => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn publish(&self, digester: &mut Digester, session: SessionId, batch: &Batch, started: Instant) {
        let mut core = self.core.lock();
        let Core { sessions, leases, .. } = &mut *core;
        let Some(found) = sessions.get_mut(&session) else { return };
        let promised = found.promised();
        found.debited += batch.debits;
        let settled = promised - found.promised();
        found.digested = batch.to;
        found.digested_entries += batch.entries;
        if !digester.placements.placed.is_empty() {
            let placed = std::mem::take(&mut digester.placements.placed);
            found.reports.push_back(BatchReport { to: batch.to, placed });
        }
        found.lingering.retain(|&(inode, until)| {
            leases.digested(session, inode, batch.to);
            until > batch.to
        });
        self.reclaim(found, Some(settled));
        found.control.publish_digested(batch.to, found.digested_entries);
        drop(core);
        self.counters.digested_entries.fetch_add(batch.entries, Ordering::Relaxed);
        self.counters.coalesced_entries.fetch_add(batch.coalesced, Ordering::Relaxed);
        self.counters.digested_bytes.fetch_add(batch.bytes_copied, Ordering::Relaxed);
        self.events.record(Step::Digest {
            session,
            from: batch.from,
            to: batch.to,
            entries: batch.entries,
            coalesced: batch.coalesced,
            bytes_copied: batch.bytes_copied,
            microseconds: started.elapsed().as_micros() as u64,
        });
        if batch.blocks_freed > 0 {
            self.events.record(Step::Free { blocks: batch.blocks_freed });
        }
    }

    /// Takes note of what the session has retired: its reports and the quarantine of what its digests freed.
    pub(crate) fn reclaim(&self, session: &mut Session, settled: Option<u64>) {
        let retired = session.retired();
        session.drop_reports(retired);
        let mut space = self.space.lock();
        space.allocator.retired(session.id, retired);
        space.credits.settle(settled.unwrap_or(0));
    }

    /// Digests a session's log to `until`. Says whether the log is still good.
    pub(crate) fn digest_all(
        &self,
        digester: &mut Digester,
        session: SessionId,
        until: Until,
    ) -> Result<Digested, Error> {
        let mut total = Digested { entries: 0, rejected: false };
        while let Some(batch) = self.digest_batch(digester, session, until)? {
            total.entries += batch.entries;
            total.rejected = batch.rejected.is_some();
            if total.rejected || (batch.at_break && until == Until::Break) {
                break;
            }
        }
        Ok(total)
    }

    /// Digests what a session says it completed, and ends it if its log proves wrong.
    pub(crate) fn digest_completed(&self, session: SessionId) -> Result<(), Error> {
        let mut digester = self.digester.lock();
        if self.digest_all(&mut digester, session, Until::Completed)?.rejected {
            self.end(&mut digester, session, Ending::GivenUp)?;
        }
        Ok(())
    }
}

/// What digesting a log to its end came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digested {
    /// Entries digested.
    pub(crate) entries: u64,
    /// The log is wrong where the digest ended.
    pub(crate) rejected: bool,
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
        program,
        slot,
        lease_generation: record.lease_generation,
        digested: record.start,
        digested_entries: 0,
        traced: record.start,
        record,
        segments,
        control,
        credit_limit: 0,
        debited: 0,
        reports: VecDeque::new(),
        revoked: Vec::new(),
        lingering: Vec::new(),
    }
}
