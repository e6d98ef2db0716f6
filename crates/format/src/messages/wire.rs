//! Messages between LibFS and SharedFS over the store's socket.
//!
//! A frame is a little-endian u32, of which the low 24 bits are a length and the high 8 the protocol's version, then that many
//! bytes of postcard: a [`Question`] one way, a [`Response`] the other. Descriptors travel beside a response by
//! SCM_RIGHTS, in the order the response names them.

mod frame;
mod lease;
mod migration;
mod pin;
mod report;
mod scrub;
mod status;

pub use frame::{WireError, decode, encode, frame_length};
pub use lease::{
    DOUBTFUL_MAX, DirectoryEntry, ExtendedAttribute, Grant, KeptNames, LeaseMode, Resynced, Sends,
};
pub use migration::{Drained, FileMove, Migrated, MigrationPlace, MoveCause, TierMoves};
pub use pin::{ExplainedPin, PinChange};
pub use report::{Placed, Report};
pub use scrub::{DamagedContent, ScrubPlace, Scrubbed};
pub use status::{
    Explanation, PredictorStatus, RequestWaits, SessionStatus, Status, StoreTotals, TierStats, TierStatus,
};

use crate::disk_profile::DiskProfile;
use crate::durability::{Durability, DurabilityWish};
use crate::emulation::Profile;
use crate::event::Event;
use crate::quota::{Amounts, Limited, Limits, Payer, Quota};
use crate::superblock::Medium;
use crate::{
    ArenaId, BlockAddress, CallRecord, CallSlot, Extent, Geometry, InodeNumber, LeaseGeneration,
    LogDependency, LogGeneration, LogPosition, PersistenceDomain, SessionId, StoreId, TierNumber, Timestamp,
};
use serde::{Deserialize, Serialize};

/// Version of the protocol; both sides must agree.
pub const PROTOCOL_VERSION: u32 = 34;

/// Longest frame either side accepts, in bytes.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// Most descriptors beside one response.
pub const DESCRIPTORS_MAX: usize = 64;

/// Most inode numbers of a block that is granted ahead.
pub const AHEAD_MAX: u32 = 1024;

/// Most inodes named to be granted along.
pub const BESIDE_MAX: usize = 512;

/// Most inodes of one [`Request::Accessed`].
pub const ACCESSES_MAX: usize = 512;

/// Most windows of one session that are not done.
pub const WINDOWS_MAX: usize = 64;

/// Most logs of one [`Request::MakeDurable`].
pub const DEPENDENCIES_MAX: usize = 1024;

/// What LibFS (or the command) asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// First message of a session. Descriptors back: notice page, client page, kick eventfd,
    /// incarnation page, references folder; for a new session where a medium is played, its channels.
    Attach {
        /// [`PROTOCOL_VERSION`].
        version: u32,
        /// The process, for people.
        pid: u32,
        /// The program's name, for people.
        program: String,
        /// The inode it looks at first, or [`InodeNumber::NONE`].
        first: InodeNumber,
        /// The session it had with a daemon before this one, or [`SessionId::NOBODY`]. It goes on with that, under a
        /// moved generation, and counts as having anything open until its first [`Request::Resync`].
        resume: SessionId,
        /// When its calls that ask for durability are to return.
        durability: DurabilityWish,
    },
    /// Adds segments to the ring. Descriptors back: one a segment, in slot order, from slot `have` on; those that were
    /// granted before and did not arrive come again.
    GrowLog {
        /// Slots mapped.
        have: u32,
        /// Slots wanted in all.
        slots: u32,
    },
    /// On medium `block`, the file that takes what the session waits for past the kernel's pages
    /// ([`crate::session_table::SessionRecord::commit_file`]). Answered [`Response::Done`], with its descriptor if it can have one.
    CommitFile,
    /// A lease on an inode. A conflicting holder is fenced first. Answered [`Response::Granted`].
    Acquire {
        /// The inode.
        inode: InodeNumber,
        /// The mode wanted.
        mode: LeaseMode,
        /// Leases on inodes with numbers near this one are welcome, too: on those in the aligned block of so many
        /// numbers that it lies in. 0: none; at most [`AHEAD_MAX`].
        ahead: u32,
        /// And on these; at most [`BESIDE_MAX`].
        beside: Vec<InodeNumber>,
        /// The session still has these names, so the changes since are enough.
        kept: Option<KeptNames>,
        /// If SharedFS performs such operations on the inode itself, it may say so ([`Response::Shipped`]) and grant nothing.
        sends: Sends,
    },
    /// Leases that will be wanted soon, to read, on inodes of a block of numbers, aligned as that of `Acquire`: only where
    /// nothing has to happen first. Answered [`Response::Ahead`], which fits a socket, as the session may not read yet.
    Ahead {
        /// One of the numbers.
        near: InodeNumber,
        /// How many there are.
        count: u32,
    },
    /// A name in a directory this session holds a lease on; grants a lease on what it names.
    Lookup {
        /// The directory.
        parent: InodeNumber,
        /// The name.
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
    },
    /// Entries of a directory behind `after` (empty: from the first), in name order.
    List {
        /// The directory.
        parent: InodeNumber,
        /// The last name already known.
        #[serde(with = "serde_bytes")]
        after: Vec<u8>,
    },
    /// Extents of a file from a block on.
    Extents {
        /// The file.
        inode: InodeNumber,
        /// First block wanted.
        from_block: u64,
    },
    /// All extended attributes of an inode this session holds a lease on.
    Extended {
        /// The inode.
        inode: InodeNumber,
    },
    /// Puts a file in mapped mode ([`InodeRecord::mapped`]), after everything that was logged of it was
    /// digested. Answered [`Response::Granted`], for writing and with nothing ahead.
    Map {
        /// The file.
        inode: InodeNumber,
    },
    /// Whether a process has the inode open for writing; answered [`Response::Written`].
    IsWritten {
        /// The inode.
        inode: InodeNumber,
    },
    /// Whether a disk lost content that the session staged for the file, since the session last asked; answered
    /// [`Response::Lost`].
    TakeLoss {
        /// The file.
        inode: InodeNumber,
    },
    /// An open file description is about to be sent to other processes. Its number is locked in the inode's lock file
    /// ([`crate::control::PASSED_MARKS`]), and what is kept goes with the lock. Answered [`Response::Passed`].
    Pass {
        /// One that was never used in this store.
        number: u64,
        /// The inode it is of.
        inode: InodeNumber,
        /// Everything that a receiver needs, as doors write it.
        #[serde(with = "serde_bytes")]
        description: Vec<u8>,
    },
    /// A description that was received; answered [`Response::Passed`].
    Passed {
        /// Its number.
        number: u64,
    },
    /// This session is a mount's, and a descriptor of the mount comes along: SharedFS tells the kernel which leases the session loses
    /// ([`crate::kernel_notice`]). Answered [`Response::KeptInKernel`].
    KeepInKernel,
    /// The mount is gone in order: the kernel keeps nothing of it any more. Answered [`Response::Done`].
    NothingInKernel,
    /// Gives leases back (their inodes were dropped from the cache).
    GiveBack {
        /// The inodes.
        inodes: Vec<InodeNumber>,
    },
    /// More inode numbers.
    InodeNumbers {
        /// How many are wanted.
        count: u32,
    },
    /// More block credit: digests first if there is none; answered [`Response::Done`] or `NoSpace`.
    Credit {
        /// Blocks wanted beyond the present limit.
        blocks: u64,
    },
    /// Room for an owner to have so much more. SharedFS digests the session's log first, and the share of that room that the session got
    /// before is void. Answered [`Response::Room`], [`Refusal::OverQuota`], or of a directory [`Refusal::NoSpace`].
    Room {
        /// Who.
        payer: Payer,
        /// The amounts that are needed at least.
        needed: Amounts,
    },
    /// The changes of files by digests up to `upto`; answered [`Response::Report`].
    Report {
        /// First position not yet retired.
        from: LogPosition,
        /// Continues a long report: number of items already received.
        skip: u64,
    },
    /// Descriptors of arenas, to map read-only.
    Arenas {
        /// Which, at most [`DESCRIPTORS_MAX`].
        arenas: Vec<ArenaId>,
    },
    /// Free blocks of an arena that the session may write once each, and name in its log. Answered [`Response::Window`], with the
    /// arena's file.
    Window {
        /// Of which tier.
        tier: TierNumber,
        /// Blocks wanted.
        blocks: u32,
        /// Windows of which the session writes no block any more, each by its first block, with the position below which its
        /// log names blocks of it. At most [`WINDOWS_MAX`].
        done: Vec<(BlockAddress, LogPosition)>,
    },
    /// Digest this session's log now, up to what it completed; answered when done.
    Digest,
    /// The generation moved: asks how far the log was accepted, and which leases are gone.
    Resync,
    /// Totals for statfs: of the store, or as far as a directory with a quota has a part in it, once this session's log is
    /// digested; those of others are, too, unless that was done a moment ago.
    Statfs {
        /// The directory, or no inode.
        tree: InodeNumber,
    },
    /// Orderly end of a session, after its last operation.
    Detach,
    /// `cuesta status`.
    Status,
    /// `cuesta quota`: what everybody owns and may own, once everything is digested. Answered [`Response::Quotas`].
    Quotas,
    /// `cuesta quota`: sets the most that an owner may have.
    SetQuota {
        /// Who.
        of: Limited,
        /// The most. `None`: no limits, and a directory is no quota's any more.
        limits: Option<Limits>,
    },
    /// `cuesta explain`.
    Explain {
        /// The path below the root, without a leading slash.
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
    },
    /// Content this session read is not what its checksum says: is it damaged? Answered [`Response::Verified`].
    Verify {
        /// The file.
        inode: InodeNumber,
        /// Where it lies.
        address: BlockAddress,
    },
    /// `cuesta scrub`, a part of it; answered [`Response::Scrubbed`].
    Scrub {
        /// Where to begin.
        from: ScrubPlace,
    },
    /// `cuesta migrate`, a part of it; answered [`Response::Migrated`].
    Migrate {
        /// A file, or a directory with all that is in it: the path below the root, without a leading slash.
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        /// Where its content is to lie.
        tier: TierNumber,
        /// The content stays where it is, and a copy of it lies in the fast tier as well.
        is_copy: bool,
        /// Where to begin.
        from: MigrationPlace,
    },
    /// `cuesta tier drain`, a part of it: all content of a tier moves to others, and no new content goes there until the next daemon.
    /// Answered [`Response::Drained`].
    Drain {
        /// The tier.
        tier: TierNumber,
        /// Where to begin.
        from: ScrubPlace,
    },
    /// `cuesta tier remove`: a tier that was drained is none of the store's any more. Answered [`Response::Done`].
    ForgetTier {
        /// The tier.
        tier: TierNumber,
    },
    /// Is this value of [`crate::pin::TIER_ATTRIBUTE`] one that pins content to tiers of the store? Answered [`Response::Done`], or not found.
    CheckPin {
        /// The value.
        #[serde(with = "serde_bytes")]
        value: Vec<u8>,
    },
    /// `cuesta tier stats`; answered [`Response::TierStats`].
    TierStats,
    /// `cuesta pin`. Answered [`Response::Done`].
    Pin {
        /// A file or a directory: the path below the root, without a leading slash.
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        /// What to do to its pin.
        change: PinChange,
    },
    /// Events from `from` on, waiting up to `wait_ms` for one.
    Trace {
        /// First event number wanted.
        from: u64,
        /// Longest wait, in milliseconds.
        wait_ms: u32,
    },
    /// `cuesta stop`: digest everything, answer, exit.
    Stop,
    /// This process waits on other connections, for longer than it should: the daemon's threads there may be waiting for
    /// the processor that it asked on.
    Unheard,
    /// The page that counts daemons shows another number than this daemon's: is this one still the store's? Answered [`Response::Done`],
    /// with the page set right, or not at all.
    Stands,
    /// Where this session says how far its log is acknowledged (medium `block`). Answered [`Response::Marks`]. Descriptor: the file.
    Marks,
    /// The disk has these parts of other sessions' logs when it is answered (medium `block`). At most [`DEPENDENCIES_MAX`].
    /// Answered [`Response::Done`].
    MakeDurable {
        /// The parts.
        logs: Vec<LogDependency>,
    },
    /// Inodes that were read, and when: SharedFS may move their times of last access. Answered [`Response::Done`], whatever became
    /// of them.
    Accessed {
        /// At most [`ACCESSES_MAX`].
        accesses: Vec<(InodeNumber, Timestamp)>,
    },
    /// The disk has all that had returned in the store when this was asked, by any session, when it is answered
    /// [`Response::Done`]. From a caller without a session, too.
    Dsync,
    /// The last call of a caller's slot that took effect and was digested. Answered [`Response::Call`].
    Call {
        /// The slot.
        slot: CallSlot,
    },
}

/// A request as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question<R> {
    /// The number of the processor that its sender waits on, a hint where to answer; `None`: it does not wait.
    pub processor: Option<u32>,
    /// A [`Request`], or a reference to one.
    pub request: R,
}

/// What SharedFS answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// To [`Request::Attach`].
    Attached(Welcome),
    /// To [`Request::GrowLog`].
    Grown {
        /// Where in its file each segment begins that comes behind those mapped (as many descriptors follow); none when none can
        /// be had.
        offsets: Vec<u64>,
    },
    /// To [`Request::Acquire`] and [`Request::Lookup`].
    Granted {
        /// The lease that was asked for.
        grant: Box<Grant>,
        /// Leases that are granted ahead, if any: a [`crate::parcel`].
        #[serde(with = "serde_bytes")]
        ahead: Vec<u8>,
    },
    /// To [`Request::Acquire`]: SharedFS performs the operations on this inode, which several sessions change. They are sent to it.
    Shipped {
        /// For so long; then the session asks for a lease again.
        term_ms: u32,
    },
    /// To [`Request::Ahead`]: a [`crate::parcel`].
    Ahead(#[serde(with = "serde_bytes")] Vec<u8>),
    /// To [`Request::List`].
    Entries {
        /// In name order.
        entries: Vec<DirectoryEntry>,
        /// These were the last.
        complete: bool,
    },
    /// To [`Request::Extents`].
    Extents {
        /// In file order.
        extents: Vec<Extent>,
        /// These were the last.
        complete: bool,
    },
    /// To [`Request::Extended`]: in name order.
    Extended(Vec<ExtendedAttribute>),
    /// To [`Request::IsWritten`].
    Written(bool),
    /// To [`Request::TakeLoss`].
    Lost(bool),
    /// To [`Request::Pass`] and [`Request::Passed`]. Descriptor: the memory file of the cells.
    Passed {
        /// The description's cell.
        cell: u32,
        /// What its sender wrote.
        #[serde(with = "serde_bytes")]
        description: Vec<u8>,
    },
    /// To [`Request::InodeNumbers`].
    InodeNumbers {
        /// The first of them.
        first: InodeNumber,
        /// How many.
        count: u32,
    },
    /// To [`Request::Room`]: so much may be added before asking again.
    Room(Amounts),
    /// To [`Request::Quotas`]: users, groups, directories, each by number.
    Quotas(Vec<Quota>),
    /// To [`Request::KeepInKernel`]: for so long the kernel may believe what it is told.
    KeptInKernel {
        /// In milliseconds.
        term_ms: u32,
    },
    /// To [`Request::Report`].
    Report(Report),
    /// To [`Request::Arenas`]: as many descriptors follow as were asked for.
    Arenas {
        /// Where in its file each arena begins.
        offsets: Vec<u64>,
    },
    /// To [`Request::Window`]: blocks of one arena.
    Window {
        /// The first one.
        address: BlockAddress,
        /// How many; 0: none can be had now, and no descriptor comes.
        blocks: u32,
        /// Where in the file the arena begins.
        begins: u64,
    },
    /// To [`Request::Resync`].
    Resynced(Resynced),
    /// To [`Request::Statfs`].
    Statfs(StoreTotals),
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Explain`].
    Explained(Box<Explanation>),
    /// To [`Request::Verify`].
    Verified {
        /// If not, it has another place by now, or was being written.
        is_damaged: bool,
    },
    /// To [`Request::Scrub`].
    Scrubbed(Scrubbed),
    /// To [`Request::Migrate`].
    Migrated(Migrated),
    /// To [`Request::TierStats`]: the fast tier first.
    TierStats(Vec<TierStats>),
    /// To [`Request::Drain`].
    Drained(Drained),
    /// To [`Request::Trace`].
    Events(Vec<Event>),
    /// Done, nothing to say.
    Done,
    /// It could not be done.
    Failed(Refusal),
    /// To [`Request::Marks`].
    Marks {
        /// The session's slot ([`crate::acknowledged`]).
        slot: u32,
    },
    /// To [`Request::Call`]; `None`: none of the slot's calls took effect, or its caller is forgotten.
    Call(Option<CallRecord>),
}

/// Why SharedFS refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// No such inode or name.
    #[error("no such file or directory")]
    NotFound,
    /// The store is full: neither credit nor segments can be had.
    #[error("no space left on the store")]
    NoSpace,
    /// The user or the group owns as much as they may.
    #[error("disk quota exceeded")]
    OverQuota,
    /// The session was given up; it must attach again.
    #[error("the session has ended")]
    SessionEnded,
    /// Client and daemon are of different versions.
    #[error("cuesta versions differ: the daemon speaks protocol {daemon}")]
    Version {
        /// The daemon's protocol version.
        daemon: u32,
    },
    /// The request makes no sense from this session.
    #[error("request refused: {0}")]
    Invalid(String),
    /// Something failed on the daemon's side; its log has the cause.
    #[error("the daemon failed: {0}")]
    Internal(String),
}

/// Everything a session needs to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The store.
    pub store: StoreId,
    /// The medium of the fast tier.
    pub medium: Medium,
    /// The medium that is played on it; a session keeps the one it began with.
    pub emulated: Option<Profile>,
    /// Where stores to it are durable, on medium `pmem`.
    pub persistence_domain: PersistenceDomain,
    /// Its sizes.
    pub geometry: Geometry,
    /// The session.
    pub session: SessionId,
    /// Generation of its log.
    pub log_generation: LogGeneration,
    /// Where the log starts.
    pub start: LogPosition,
    /// The lease generation to begin with.
    pub lease_generation: LeaseGeneration,
    /// The first word of the incarnation page while this daemon lives. Once the word differs, another
    /// daemon recovers the log: nothing more may be acknowledged.
    pub incarnation: u64,
    /// On medium `block`, how often it waits for its log's own pages before it asks for a commit file.
    pub commit_file_waits: u32,
    /// How long a wait for that keeps its processor awake, in microseconds.
    pub awake_us: u32,
    /// How many tiers lie below the fast one.
    pub lower_tiers: u8,
    /// Those of them that play another disk.
    pub played: Vec<(TierNumber, DiskProfile)>,
    /// Whole blocks of a write from which on they may go to a window, in bytes; 0: none may.
    pub stage_bytes: u32,
    /// When its calls that ask for durability return, on medium `block`.
    pub durability: Durability,
    /// In optimistic mode, in which time the disk has what they did, in milliseconds.
    pub optimistic_ms_max: u32,
    /// First inode number it may give.
    pub inode_first: InodeNumber,
    /// How many it may give.
    pub inode_count: u32,
    /// The folder of what the kernel has in the place of named pipes and sockets, each by its inode's number.
    pub stand_ins: Vec<u8>,
    /// A [`crate::parcel`] of leases to read what it looks at first and the directories above that, where they can be had.
    #[serde(with = "serde_bytes")]
    pub ahead: Vec<u8>,
}

#[cfg(test)]
mod tests;
