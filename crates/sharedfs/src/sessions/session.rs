//! One session, as the daemon knows it.

use super::commit_file::CommitFile;
use super::control::Control;
use super::ending::Ending;
use super::epochs::WrittenLog;
use super::segments::{LogFiles, Segment};
use super::table::SessionTable;
use crate::Error;
use crate::digest::{Backlog, LogView};
use crate::kernel::KernelCache;
use crate::store::Options;
use cuesta_format::entry::Salt;
use cuesta_format::session_table::SessionRecord;
use cuesta_format::wire::{Placed, Report};
use cuesta_format::{
    Durability, Geometry, InodeNumber, LeaseGeneration, LogGeneration, LogPosition, SessionId, StoreId,
};
use cuesta_media::Node;
use cuesta_media::emulate::Emulated;
use cuesta_media::planted::{self, Bug};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Most items of one report message: about a megabyte.
const REPORT_ITEMS: usize = 32 << 10;

/// The placements of one digest batch; kept until the session has retired them.
#[derive(Debug)]
pub struct BatchReport {
    /// The batch reached up to here.
    pub to: LogPosition,
    /// The placements.
    pub placed: Vec<Placed>,
}

/// Whether a session's process talks to this daemon.
#[derive(Clone, Debug)]
pub enum Presence {
    /// It does.
    Here,
    /// It had it with an earlier one, lives, and has not come back yet: the process, to see its end.
    Away(Arc<OwnedFd>),
    /// It came back, and has not said yet that it shows here which inodes it has open.
    Returning,
}

/// More inodes than these are not remembered to have been taken from others.
const TURNS_MAX: usize = 4096;

/// A session's turn with an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// When it got the inode, by the daemon's clock.
    pub(crate) granted: Duration,
    /// How many operations it had done by then.
    pub(crate) operations: u64,
    /// Others were fenced for it.
    pub(crate) is_taken: bool,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// Its process, for people.
    pub pid: u32,
    /// Where it is.
    pub presence: Presence,
    /// The memory node its process ran on when its log last grew.
    pub node: Option<Node>,
    /// Its program, for people.
    pub program: String,
    /// Its slot of the session table.
    pub slot: u32,
    /// The slot's record.
    pub record: SessionRecord,
    /// The lease generation it was last told; that of the record belongs to the log.
    pub lease_generation: LeaseGeneration,
    /// The kernel's cache, if it is a mount's session.
    pub(crate) kernel: Option<KernelCache>,
    /// The segments of its ring, in slot order.
    pub segments: Vec<Segment>,
    /// Its log's commit file.
    pub commit_file: Option<CommitFile>,
    /// The pages it shares with us.
    pub control: Arc<Control>,
    /// How far its log is in the shared area.
    pub digested: LogPosition,
    /// Entries that is.
    pub digested_entries: u64,
    /// How far its log was complete, as it said, when the last digest of it began.
    pub digesting: LogPosition,
    /// How far the trace says its log is written.
    pub traced: LogPosition,
    /// Blocks it may debit in all.
    pub credit_limit: u64,
    /// Blocks its digested entries debited.
    pub debited: u64,
    /// Reports it has not retired yet.
    pub reports: VecDeque<BatchReport>,
    /// Leases it lost and was not told about; of directories, the version the shared area had then.
    pub revoked: BTreeMap<InodeNumber, Option<u64>>,
    /// It lost them all.
    pub revoked_all: bool,
    /// Leases that it was granted along with one it asked for, and was not told of.
    pub untold: BTreeSet<InodeNumber>,
    /// Directories that it asked to read and was granted for writing, with the version of the last change before that.
    pub(crate) looked_at: BTreeMap<InodeNumber, u64>,
    /// Files of which a disk lost content that it staged. Their next fsync tells.
    pub(crate) lost: BTreeSet<InodeNumber>,
    /// Its turns with inodes that sessions take from each other.
    pub(crate) turns: BTreeMap<InodeNumber, Turn>,
    /// The answer that tells it of such a turn was not sent yet.
    pub(crate) is_unanswered: bool,
    /// Inodes it gave back while its log could still change them, the first one first.
    pub lingering: VecDeque<(InodeNumber, LogPosition)>,
    /// Recovery takes nothing of its log from here on.
    pub(crate) cut: Option<LogPosition>,
    /// How far cuts took its log.
    pub(crate) written: WrittenLog,
    /// In which time the disk must have what it did, in milliseconds, if it is optimistic.
    pub(crate) optimistic_ms_max: Option<u32>,
    /// Its log is looked at without a kick.
    pub(crate) is_polled: bool,
    /// It is over, and ends this way once there is room to digest the rest of its log.
    pub ending: Option<Ending>,
}

impl Session {
    /// A session as it is when its slot of the table is taken, or was found.
    pub(crate) fn new(
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
            lost: BTreeSet::new(),
            turns: BTreeMap::new(),
            is_unanswered: false,
            lingering: VecDeque::new(),
            cut: None,
            written: WrittenLog::default(),
            optimistic_ms_max: None,
            is_polled: false,
            ending: None,
            kernel: None,
        }
    }

    /// Starts a new generation of its log where the digest ended: entries behind that are void from now on.
    pub(crate) fn renew_log(&mut self, table: &mut SessionTable) -> Result<(), Error> {
        if !planted::active(Bug::ReusedSalt) {
            self.record.log_generation = LogGeneration(self.record.log_generation.0 + 1);
        }
        self.record.lease_generation = self.lease_generation;
        self.record.start = self.digested;
        table.write(self.slot, &self.record)
    }

    /// Tells it all that it goes by from the first.
    pub(crate) fn publish(&self, options: &Options) {
        self.control.publish_generation(self.lease_generation);
        self.control.publish_kick_bytes(self.kick_bytes(options));
        self.control.publish_slots(self.segments.len() as u32);
        self.control.publish_digested(self.digested, self.digested_entries);
        self.control.publish_credit(self.credit_limit);
    }

    /// It got an inode that sessions take turns with.
    pub(crate) fn begin_turn(&mut self, inode: InodeNumber, now: Duration, is_taken: bool) {
        if self.turns.len() >= TURNS_MAX {
            self.turns.clear();
        }
        self.is_unanswered = true;
        self.turns.insert(inode, Turn { granted: now, operations: self.control.operations(), is_taken });
    }

    /// How long its log may become before it is digested.
    pub(crate) fn kick_bytes(&self, options: &Options) -> u64 {
        let digested_at = self.commit_file.as_ref().map(CommitFile::digested_at_bytes);
        digested_at.map_or(options.kick_bytes, |bytes| bytes.min(options.kick_bytes))
    }

    /// What checksums of its log are salted with.
    pub(crate) fn salt(&self, store: StoreId) -> Salt {
        Salt::new(store, self.id, self.record.log_generation)
    }

    /// From now on none of its operations returns without asking.
    pub(crate) fn move_generation(&mut self) {
        self.lease_generation = LeaseGeneration(self.lease_generation.0 + 1);
        self.control.publish_generation(self.lease_generation);
    }

    /// Whether its generation was moved, and its log not yet taken for that.
    #[must_use]
    pub(crate) fn is_unsettled(&self) -> bool {
        self.lease_generation != self.record.lease_generation
    }

    /// How far its log is complete, as it says, but never before the digested end.
    #[must_use]
    pub fn completed(&self) -> LogPosition {
        self.control.completed().max(self.digested)
    }

    /// How far it has retired, as it says. Never beyond the digested end, nor a whole ring before: it has
    /// written over the bytes there, and so retired them, whatever it says. So the reports kept for it are
    /// bounded.
    #[must_use]
    pub fn retired(&self, ring_bytes: u64) -> LogPosition {
        let least = LogPosition(self.digested.0.saturating_sub(ring_bytes));
        self.control.retired().clamp(least, self.digested)
    }

    /// After a fence, the session may still speak of the log as it was.
    fn knows_its_log(&self) -> bool {
        self.control.log_generation() == self.record.log_generation
    }

    /// How far the disk has its log, as it says or as cuts took it, and everything that this depends on.
    pub(crate) fn durable(&self) -> LogPosition {
        let cut = self.written.whole(self.record.log_generation);
        let said = if self.knows_its_log() { self.control.durable() } else { self.digested };
        said.max(cut).min(self.completed())
    }

    /// When its calls that ask for durability return.
    pub(crate) fn durability(&self) -> Durability {
        self.optimistic_ms_max.map_or(Durability::Pessimistic, |_| Durability::Optimistic)
    }

    /// How much its log holds that is not digested.
    #[must_use]
    pub fn undigested_bytes(&self) -> u64 {
        self.completed().0 - self.digested.0
    }

    /// The same, with all that the digest thread goes by.
    #[must_use]
    pub fn backlog(&self, options: &Options) -> Backlog {
        Backlog {
            session: self.id,
            bytes: self.undigested_bytes(),
            long_bytes: self.kick_bytes(options),
            awaited: self.control.is_awaited(),
        }
    }

    /// Blocks promised to it and not digested.
    #[must_use]
    pub fn promised(&self) -> u64 {
        self.credit_limit.saturating_sub(self.debited)
    }

    /// Its log, for a digest.
    #[must_use]
    pub fn log_view(
        &self,
        store: StoreId,
        geometry: Geometry,
        numbers: Range<u64>,
        emulated: Option<Arc<Emulated>>,
    ) -> LogView {
        let (knows_its_log, completed) = (self.knows_its_log(), self.completed());
        LogView {
            session: self.id,
            files: LogFiles { geometry, segments: self.segments.clone(), emulated },
            salt: self.salt(store),
            log_generation: self.record.log_generation,
            lease_generation: self.record.lease_generation,
            from: self.digested,
            completed,
            whole: if knows_its_log { completed } else { self.digested },
            durable: self.durable(),
            cut: self.cut,
            numbers,
            promised: self.promised(),
            debited: self.debited,
            credit_limit: self.credit_limit,
            node: self.node,
        }
    }

    /// The placements of the digests behind `from`, from item `skip` on.
    #[must_use]
    pub fn report(&self, from: LogPosition, skip: u64) -> Report {
        let items = self
            .reports
            .iter()
            .filter(|report| report.to > from)
            .flat_map(|report| report.placed.iter().copied())
            .skip(usize::try_from(skip).unwrap_or(usize::MAX));
        let mut placed: Vec<Placed> = items.take(REPORT_ITEMS + 1).collect();
        let more = placed.len() > REPORT_ITEMS;
        placed.truncate(REPORT_ITEMS);
        Report { digested: self.digested, placed, more }
    }

    /// Forgets reports the session has done with.
    pub fn drop_reports(&mut self, retired: LogPosition) {
        while self.reports.front().is_some_and(|report| report.to <= retired) {
            self.reports.pop_front();
        }
    }
}
