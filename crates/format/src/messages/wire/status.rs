//! The daemon's answers about the store: totals, status, and where a file lies.

use super::{ExplainedPin, FileMove, LeaseMode, TierMoves};
use crate::disk_profile::{DiskProfile, DiskUse};
use crate::emulation::Profile;
use crate::superblock::Medium;
use crate::{Durability, Extent, Geometry, InodeRecord, PersistenceDomain, SessionId, StoreId, TierNumber};
use serde::{Deserialize, Serialize};

/// Totals of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreTotals {
    /// Blocks arenas may take in all.
    pub blocks: u64,
    /// Blocks not allocated.
    pub blocks_free: u64,
    /// Those of them that were promised to sessions. What these have written and is not digested is among them.
    pub blocks_promised: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Inodes that may still be made.
    pub inodes_free: u64,
}

impl StoreTotals {
    /// Blocks that the next session can have that asks.
    #[must_use]
    pub fn blocks_unpromised(&self) -> u64 {
        self.blocks_free.saturating_sub(self.blocks_promised)
    }
}

/// `cuesta status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The store.
    pub store: StoreId,
    /// The medium of the fast tier.
    pub medium: Medium,
    /// The medium that is played on it.
    pub emulated: Option<Profile>,
    /// Where stores to it are durable, on medium `pmem`.
    pub persistence_domain: Option<PersistenceDomain>,
    /// The node of the machine's memory that the fast tier is on, if it is persistent memory of one.
    pub node: Option<u32>,
    /// On a machine with several memory nodes: free blocks that lie on each, and are ready for content of programs there.
    pub free_on_nodes: Vec<(u32, u64)>,
    /// Blocks that the medium does not take, and that are not used any more.
    pub bad_blocks: u64,
    /// Its sizes.
    pub geometry: Geometry,
    /// Process id of the daemon.
    pub pid: u32,
    /// Milliseconds since the daemon was ready.
    pub uptime_ms: u64,
    /// Milliseconds recovery took at start.
    pub recovery_ms: u64,
    /// Entries recovery digested at start.
    pub recovered_entries: u64,
    /// Totals.
    pub totals: StoreTotals,
    /// Why nothing is written any more, if that is so: what can be read is.
    pub refuses_writes: Option<String>,
    /// Bytes of the metadata store.
    pub metadata_bytes: u64,
    /// Entries digested since start.
    pub digested_entries: u64,
    /// Entries among them whose effect was overtaken inside their batch.
    pub coalesced_entries: u64,
    /// Bytes copied into arenas since start.
    pub digested_bytes: u64,
    /// Sessions that lost a lease to others' requests since start.
    pub fences: u64,
    /// Files and directories that several sessions change, on which SharedFS performs the operations itself at present.
    pub shipped: u64,
    /// Calls that the daemon performed since start for processes that had no session yet.
    pub first_calls: u64,
    /// Processes that ended after such calls and never attached.
    pub never_attached: u64,
    /// How long requests waited for their answers since start.
    pub requests: Vec<RequestWaits>,
    /// Live sessions.
    pub sessions: Vec<SessionStatus>,
    /// Calls under the path that were not served, ever since start: (system call number, count).
    pub unserved: Vec<(u32, u64)>,
    /// How often one copy of the metadata was mended from the other since start.
    pub healed: u64,
    /// When calls that ask for durability return, where a session asks for nothing else.
    pub durability: Durability,
    /// In which time the disk has what optimistic sessions did, in milliseconds, if the store goes by epochs.
    pub optimistic_ms_max: Option<u32>,
    /// How long the oldest entry of a log has waited for the disk, in milliseconds: an upper bound, if the store goes by epochs
    /// and any waits.
    pub unwritten_ms: Option<u64>,
    /// The disk did not take a log: nothing is durable any more, and every `fsync` says so.
    pub has_unwritable_log: bool,
    /// The tiers, the fast one first.
    pub tiers: Vec<TierStatus>,
    /// How often predictions of writes were right, where the store has several tiers.
    pub predictors: PredictorStatus,
    /// Blocks that moved to a lower tier by themselves since start.
    pub blocks_demoted: u64,
    /// Blocks of lower tiers that were copied to the fast tier by themselves,
    pub blocks_promoted: u64,
    /// and the copies that are there now.
    pub blocks_copied: u64,
}

/// How often the predictors that steer writes were right since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictorStatus {
    /// Right predictions of whether a program would wait for a write soon.
    pub synchronous_right: u64,
    /// Wrong ones.
    pub synchronous_wrong: u64,
    /// Right predictions of whether writes to a range stay large.
    pub large_right: u64,
    /// Wrong ones.
    pub large_wrong: u64,
}

/// Requests of one kind in [`Status`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestWaits {
    /// The kind of lease or request.
    pub kind: String,
    /// How many there were.
    pub count: u64,
    /// How long they waited in all, in microseconds.
    pub total_us: u64,
    /// 99 of 100 waited no longer (to a factor of two).
    pub p99_us: u64,
    /// The longest wait.
    pub longest_us: u64,
}

/// A session in [`Status`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The session.
    pub session: SessionId,
    /// Its process.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// Bytes in its log not digested yet.
    pub log_bytes: u64,
    /// Bytes its log may hold at present.
    pub log_capacity_bytes: u64,
    /// Leases it holds.
    pub leases: u64,
    /// Operations it was served.
    pub operations: u64,
    /// When its calls that ask for durability return.
    pub durability: Durability,
    /// The memory node its process ran on when its log last grew, where that decides where the log lies.
    pub node: Option<u32>,
}

/// `cuesta explain PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The inode.
    pub record: InodeRecord,
    /// Where its blocks lie.
    pub extents: Vec<Extent>,
    /// What people call the tiers, by their numbers.
    pub tier_names: Vec<String>,
    /// Target of a symbolic link.
    #[serde(with = "serde_bytes")]
    pub target: Vec<u8>,
    /// Sessions that hold a lease on it, and in which mode.
    pub leases: Vec<(SessionId, LeaseMode)>,
    /// The rule for its content, by the number of the tier that it lies on.
    pub rules: Vec<String>,
    /// Its last moves between tiers, the latest first.
    pub moves: Vec<FileMove>,
    /// The pin that it follows, if there is one.
    pub pin: Option<ExplainedPin>,
}

/// A tier of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierStatus {
    /// Its number; 0 is the fast tier.
    pub number: TierNumber,
    /// What people call it.
    pub name: String,
    /// Where it lies.
    pub path: String,
    /// How bytes in it become durable.
    pub medium: Medium,
    /// The disk that is played on it, if it is a lower tier.
    pub profile: Option<DiskProfile>,
    /// Accesses that this disk saw.
    pub disk_use: Option<DiskUse>,
    /// Its content moves to other tiers, and no new content goes there.
    pub draining: bool,
    /// It is being taken out of the store.
    pub removing: bool,
    /// Blocks of content that it may hold.
    pub blocks: u64,
    /// Blocks that files have there.
    pub blocks_used: u64,
    /// Blocks that are pinned to it and lie elsewhere, because it has no room for them.
    pub blocks_pinned_outside: u64,
    /// Why it cannot be read, if it cannot.
    pub missing: Option<String>,
    /// Why nothing is written to it any more, if that is so.
    pub failed: Option<String>,
}

/// The figures of a tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierStats {
    /// The tier.
    pub tier: TierStatus,
    /// How urgent it is to move content down; `None`: none moves down from there by itself.
    pub level: Option<String>,
    /// Above this part of the tier content moves down, in percent.
    pub low_mark_percent: Option<u32>,
    /// Blocks that its medium does not take, and that are not used any more.
    pub bad_blocks: u64,
    /// The blocks that came and left, by cause.
    pub moves: Vec<TierMoves>,
}
