//! Events: one observable step each, the same for `cuesta trace`, the tests and the visualiser.

use crate::{ArenaId, InodeNumber, LogGeneration, LogPosition, SessionId, TierNumber};
use serde::{Deserialize, Serialize};

/// An event and when it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts events since the daemon started; a gap means the reader was too slow.
    pub number: u64,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// What happened.
    pub step: Step,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Step {
    /// A program attached.
    Attach { session: SessionId, pid: u32 },
    /// A program went away; its log was digested to the end.
    Detach { session: SessionId, pid: u32 },
    /// A log segment was granted.
    Grow { session: SessionId, slots: u32 },
    /// The log was seen to have grown to here.
    Append { session: SessionId, completed: LogPosition },
    /// A batch of the log went into the shared area.
    Digest {
        session: SessionId,
        from: LogPosition,
        to: LogPosition,
        entries: u64,
        /// Entries whose effect was overtaken inside the batch.
        coalesced: u64,
        /// Bytes copied into arenas.
        bytes_copied: u64,
        microseconds: u64,
    },
    /// An arena was made.
    Allocate { arena: ArenaId },
    /// Blocks were freed; they are used again once their readers have passed.
    Free { blocks: u64 },
    /// A lease was granted.
    Grant { session: SessionId, inode: InodeNumber, write: bool },
    /// Leases on so many other inodes were granted along.
    GrantAhead { session: SessionId, inode: InodeNumber, count: u64 },
    /// A session was fenced.
    Fence { session: SessionId, accepted: LogPosition, generation: LogGeneration },
    /// Recovery digested what a log still held.
    Recover { session: SessionId, from: LogPosition, to: LogPosition, entries: u64, microseconds: u64 },
    /// A session sends the operations on an inode to SharedFS for so long.
    Ship { session: SessionId, inode: InodeNumber, term_ms: u32 },
    /// The term of an inode is over, and a session has its lease: operations on it are own again.
    Own { session: SessionId, inode: InodeNumber },
    /// A process without a session has the daemon perform its first calls. `Attach` ends that.
    FirstCalls { pid: u32 },
    /// The process hung up after so many first calls, and never attached.
    NeverAttached { pid: u32, calls: u64 },
    /// Blocks of a file moved to a tier.
    Migrate { inode: InodeNumber, tier: TierNumber, blocks: u64 },
    /// Blocks of a file in lower tiers have a copy in the fast tier.
    CopyUp { inode: InodeNumber, blocks: u64 },
    /// Copies of a file's blocks were dropped to make room.
    DropCopies { inode: InodeNumber, blocks: u64 },
    /// A log was given up at an entry that cannot be applied.
    Reject { session: SessionId, at: LogPosition, why: String },
}
