//! The control block: the two pages a session and SharedFS share in memory. A third page, the same for all
//! sessions, counts daemons and epochs ([`StorePage`]).
//!
//! SharedFS writes the notice page and LibFS only reads it; LibFS writes the client page and
//! SharedFS believes nothing in it beyond a hint. Each is a sealed memfd that SharedFS made.
//!
//! # Which inodes are open
//!
//! An inode that lost its last name stays while a process has it open. SharedFS asks no process about that: it sees it.
//!
//! | opener | where SharedFS sees it |
//! |---|---|
//! | a session | in a slot behind its client page ([`OPEN_SLOTS_OFFSET`]) from before its open returns, until its last entry about the inode is complete |
//! | a process that has a descriptor and perhaps no session (after fork, before and after exec) | the descriptor is an open file description of the inode's *lock file*, with a shared OFD lock on the byte [`OPENER_MARK`]: the kernel counts who has it |
//!
//! Whether it may write is seen there, too, since a file that is open for writing is not executed: the number in a slot
//! has the bit [`OPEN_FOR_WRITING`], and a byte of its own among [`WRITER_MARKS`] is locked exclusively. The kernel grants no such lock
//! to a process that has the lock file for reading only, as processes of other users have those of files that they may only read.
//!
//! A descriptor that is sent over a socket has a third locked byte, [`PASSED_MARKS`] further on than the number under which SharedFS
//! keeps everything else that a receiver needs ([`crate::wire::Request::Pass`]).
//!
//! A descriptor is made such before it is handed on, while the slot is still taken. So a reader that looks at the slots first
//! and at the locks then sees every inode that is open.
//!
//! # Locks of programs
//!
//! They are the kernel's own locks, on the same description of the same lock file, below [`MARKS_OFFSET`]. So holders, waiters,
//! inheritance and release are as for any file. A program's lock behind
//! [`USER_LOCK_LAST`] is a lock on that byte.
//!
//! Lock files lie in [`crate::geometry::REFERENCES_FOLDER`]; each has its inode's number for a name. Descriptors that were
//! opened to name a file and no more (`O_PATH`) have one of their own, with [`PATH_SUFFIX`] behind the number: closing such
//! a one ends no locks. A process that needs a lock file makes it, and SharedFS removes lock files without marks. Two rules make sure
//! that no process goes on with a removed one:
//!
//! | maker | remover |
//! |---|---|
//! | opens or makes it by its name | locks everything from [`MARKS_OFFSET`] on exclusively, or leaves it |
//! | sets its marks, or begins again if they cannot be had | removes the name |
//! | sees that it has a name still, or begins again | closes it |

use crate::kept_names::{SETS, WAYS};
use crate::seen_reads::SEEN_READS_BYTES;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes of a page, and of its mapping unless it says otherwise.
pub const CONTROL_BYTES: usize = 8192;

/// Where the slots of open inodes start in the client page's memfd: each an `AtomicU64` with an inode's number, or 0.
pub const OPEN_SLOTS_OFFSET: usize = CONTROL_BYTES;

/// Bit of a slot beside the inode's number: open for writing.
pub const OPEN_FOR_WRITING: u64 = 1 << 63;

/// Where in a lock file the marks begin: what programs lock lies below.
pub const MARKS_OFFSET: u64 = 1 << 62;

/// The last byte of a lock file that programs lock, for all that lies behind it in a file.
pub const USER_LOCK_LAST: u64 = MARKS_OFFSET - 1;

/// The byte that says that the inode is open. It does not join what programs lock below: the kernel would make one of both.
pub const OPENER_MARK: u64 = MARKS_OFFSET + 1;

/// The byte that says that SharedFS has the description, for processes it serves: it may outlive the last of them for a moment.
pub const SERVED_MARK: u64 = OPENER_MARK + 2;

/// Bytes one of which, locked exclusively, says that it is for writing.
pub const WRITER_MARKS: Range<u64> = MARKS_OFFSET + (1 << 60)..MARKS_OFFSET + (1 << 60) + (1 << 32);

/// The byte that says that the description was sent to other processes under the number 0; those of larger numbers follow.
pub const PASSED_MARKS: u64 = MARKS_OFFSET + (1 << 61);

/// Behind the inode's number in the name of a lock file that is for naming the inode alone.
pub const PATH_SUFFIX: char = 'p';

/// Cells for what the holders of sent descriptions share, in one memory file: as many bytes for each.
pub const PASSED_CELLS: u32 = 1 << 16;

/// Bytes of one of these cells.
pub const PASSED_CELL_BYTES: usize = 32;

/// Where in a cell the number of the process is that uses it, or 0 (a u32);
pub const CELL_HOLDER: usize = 0;
/// how many processes have the description (a u32);
pub const CELL_PROCESSES: usize = 4;
/// its offset (a u64);
pub const CELL_OFFSET: usize = 8;
/// and, unless it is 0, the number under which all this is to be found elsewhere (a u64).
pub const CELL_MOVED: usize = 24;

/// Bytes of their memory file.
pub const PASSED_BYTES: usize = PASSED_CELLS as usize * PASSED_CELL_BYTES;

/// Longest description that is kept for receivers.
pub const PASSED_DESCRIPTION_MAX: usize = 16 << 10;

/// Slots that are used at first; later by powers of two, as [`ClientPage::open_slots`] says.
pub const OPEN_SLOTS_FIRST: usize = 512;

/// How many slots there are.
pub const OPEN_SLOTS_MAX: usize = 64 << 10;

/// Where the ring of seen reads lies behind the client page.
pub const SEEN_READS_OFFSET: usize = OPEN_SLOTS_OFFSET + OPEN_SLOTS_MAX * size_of::<u64>();

/// Bytes of the client page's memfd.
pub const CLIENT_BYTES: usize = SEEN_READS_OFFSET + SEEN_READS_BYTES;

/// System calls counted apart in [`ClientPage::unserved`].
pub const UNSERVED_SLOTS: usize = 512;

/// What SharedFS tells the session.
#[repr(C)]
pub struct NoticePage {
    /// Lease generation: moved whenever the session lost a lease or was fenced. An operation whose
    /// generation moved while it ran must resynchronise before it returns.
    pub generation: AtomicU64,
    /// Everything below this log position is in the shared area.
    pub digested: AtomicU64,
    /// Woken on every step of `digested`; changes value each time.
    pub digest_wake: AtomicU32,
    /// [`STATE_CLOSED`], [`STATE_UNWRITABLE`], [`STATE_LOST`].
    pub state: AtomicU32,
    /// Ring slots granted so far.
    pub granted_slots: AtomicU64,
    /// Blocks the session may debit in total, over its whole life.
    pub credit_limit: AtomicU64,
    /// Bytes appended since the last kick that deserve the next one.
    pub kick_bytes: AtomicU64,
    /// Most entries the session's log may hold undigested: recovery must be done with all logs in a moment. Changes
    /// as sessions come and go; a session above it waits for a digest before it appends again.
    pub entries_max: AtomicU64,
    /// Changes with each change of a limit; 0: there are no limits.
    pub quotas: AtomicU64,
    /// Entries of this session that were digested, ever. Published before `digested`.
    pub digested_entries: AtomicU64,
    /// Not 0: SharedFS looks at the log without being told that it holds something. What makes it 0 looks once more.
    pub attended: AtomicU64,
    /// Directories of each set that another session is about to take from this session, a mount's ([`crate::kept_names`]).
    pub wanted: [AtomicU64; SETS],
    /// Whether sessions sync their new files: [`ClientPage::sync_habit`] of the session that ended last.
    pub sync_habit: AtomicU64,
}

/// The page that all sessions of a store share, and that outlives daemons: a file of the store
/// ([`crate::geometry::INCARNATION_FILE`]). SharedFS writes it; any process that may write the file can damage it.
/// Each field is read and stored by a copy of its own that survives a file that was cut.
///
/// | word | its reader, and when |
/// |---|---|
/// | `incarnation` | a session, after each operation |
/// | `epoch` | a session, before it appends an entry: one that finds another epoch than its log says logs it first |
/// | `epoch_on_disk`, `last_cut_ms` | a session in optimistic mode, where it might have to wait |
/// | `sleeps` | a session in optimistic mode, behind each entry |
#[repr(C)]
pub struct StorePage {
    /// The number of the daemon.
    pub incarnation: u64,
    /// The present epoch, or 0: the store goes by none ([`crate::epochs`]).
    pub epoch: u64,
    /// The newest epoch that is on the disk.
    pub epoch_on_disk: u64,
    /// When it ended, in milliseconds of the kernel's monotonic clock by its ticks: all that had returned before is on the disk.
    pub last_cut_ms: u64,
    /// Not 0: SharedFS writes no log until a session kicks.
    pub sleeps: u64,
}

/// The page in which the session tells SharedFS its state. Every field may lie.
#[repr(C)]
pub struct ClientPage {
    /// The generation of the log that `completed` is about: while it is the log's, everything below `completed` is
    /// whole, and what is not was damaged. Written behind `completed`.
    pub log_generation: AtomicU64,
    /// Everything below this log position is completely written.
    pub completed: AtomicU64,
    /// Medium `block`: everything below this log position is on the disk, in the log or its commit file, or digested. Written before
    /// `log_generation` where the log starts again.
    pub durable: AtomicU64,
    /// Everything below this log position is no longer read by this session, neither in the log nor in the
    /// blocks that the digest of it freed.
    pub retired: AtomicU64,
    /// Threads that wait for `digest_wake`.
    pub waiters: AtomicU32,
    /// How many of the slots behind this page are in use: nothing lies in those above.
    pub open_slots: AtomicU32,
    /// Operations served, for `cuesta status`.
    pub operations: AtomicU64,
    /// Bytes read, for `cuesta status`.
    pub bytes_read: AtomicU64,
    /// Bytes written, for `cuesta status`.
    pub bytes_written: AtomicU64,
    /// How often each predictor was right and wrong, for `cuesta status`.
    pub predictions: [AtomicU64; 4],
    /// Open inodes that found no slot: while there are any, every inode may be open.
    pub open_unlisted: AtomicU64,
    /// Lock files this session has asked for: some of them may be taken away again.
    pub lock_files: AtomicU64,
    /// Calls under the path that were not served, by system call number (the last slot: all others).
    pub unserved: [AtomicU32; UNSERVED_SLOTS],
    /// Of which directories a mount's kernel keeps names, if the session is one's ([`crate::kept_names`]).
    pub kept_names: [[AtomicU64; WAYS]; SETS],
    /// Whether the session syncs its new files: the count of its predictor of synchronicity, plus one. 0: none of its predictions
    /// was right or wrong yet.
    pub sync_habit: AtomicU64,
    /// How many reads the session has told of in the ring behind the slots ([`crate::seen_reads`]).
    pub seen_reads: AtomicU64,
}

/// Bit of [`NoticePage::state`]: the daemon is gone or gave the session up.
pub const STATE_CLOSED: u32 = 1;

/// Bit of [`NoticePage::state`]: the disk did not take a log. It is not in the page of the store, which lies on that disk.
pub const STATE_UNWRITABLE: u32 = 2;
/// In [`NoticePage::state`]: a digest found that a disk lost content which the session staged ([`crate::wire::Request::TakeLoss`]).
pub const STATE_LOST: u32 = 4;

const _: () = assert!(size_of::<NoticePage>() <= CONTROL_BYTES);
const _: () = assert!(size_of::<ClientPage>() <= CONTROL_BYTES);
const _: () = assert!(size_of::<StorePage>() == 40);
