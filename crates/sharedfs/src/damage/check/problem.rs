//! Everything that can fail to fit together in a store.

use crate::damage::LogLoss;
use crate::metadata::JournalFlaw;
use crate::tiers::LostArena;
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::stamp::Misplaced;
use cuesta_format::{ArenaId, BlockAddress, InodeNumber, SessionId, TierNumber};
use std::path::PathBuf;

/// Something that does not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Problem {
    #[error("a copy of the superblock was damaged or old: {0}; the other was sound")]
    SuperblockCopy(String),
    #[error("a copy of the metadata was damaged or old: {0}; the other was sound")]
    MetadataCopy(String),
    #[error(
        "{}: {why}. It was taken all the same: what changed since then is lost, and files may hold bytes of other files", path.display()
    )]
    Misplaced { path: PathBuf, why: Misplaced },
    #[error("{0}")]
    LostArena(LostArena),
    #[error("tier {tier} is missing, and files with blocks there cannot be read there (EIO): {why}")]
    TierMissing { tier: TierNumber, why: String },
    #[error("the metadata store's pages were not all sound")]
    Pages,
    #[error(
        "{0} pages of the metadata are damaged in every copy: cuesta fsck --repair goes on with what can be read of it, and what cannot is \
         lost"
    )]
    LostPages(u64),
    #[error(
        "the metadata was damaged in every copy. What could be read of it is the metadata now; the damaged files are kept in {}. Lost: {}",
        aside.display(),
        if lost.is_empty() { "nothing".to_owned() } else { lost.join("; ") }
    )]
    Salvaged { aside: PathBuf, lost: Vec<String> },
    #[error(
        "the journal of the metadata store was damaged: {flaw}. {commits_kept} commits before that were kept and all behind \
         it dropped: names, sizes and attributes that changed last are as they were before, and files that were written \
         since may hold bytes of other files"
    )]
    Journal { flaw: JournalFlaw, commits_kept: u64 },
    #[error("inode {0} has mode {1:o}, which names no kind of file")]
    Mode(InodeNumber, u32),
    #[error("inode {0} has a number that was never given")]
    Number(InodeNumber),
    #[error("the root directory is missing")]
    NoRoot,
    #[error("{name:?} in directory {parent} names inode {inode}, which does not exist")]
    Dangling { parent: InodeNumber, name: String, raw: Vec<u8>, inode: InodeNumber },
    #[error("{name:?} is in directory {parent}, which is none")]
    NoDirectory { parent: InodeNumber, name: String, raw: Vec<u8> },
    #[error("{name:?} in directory {parent} has the wrong kind for inode {inode}")]
    EntryKind { parent: InodeNumber, name: String, raw: Vec<u8>, inode: InodeNumber },
    #[error("directory {0} has more than one name")]
    ManyNames(InodeNumber),
    #[error("inode {inode} has {names} names but counts {links}")]
    Links { inode: InodeNumber, names: u32, links: u32 },
    #[error("directory {inode} holds {entries} names but counts {size}")]
    Entries { inode: InodeNumber, entries: u64, size: u64 },
    #[error("directory {inode} lies in {holder} but says {parent}")]
    Parent { inode: InodeNumber, holder: InodeNumber, parent: InodeNumber },
    #[error("directory {0} cannot be reached from the root")]
    Unreachable(InodeNumber),
    #[error("inode {0} has no name")]
    Nameless(InodeNumber),
    #[error("inode {inode} is kept for session {session}, but does not exist or has names")]
    Orphan { inode: InodeNumber, session: SessionId },
    #[error("inode {inode} has {counted} blocks but counts {blocks}")]
    Blocks { inode: InodeNumber, counted: u64, blocks: u64 },
    #[error("inode {inode}: an extent at block {file_block} lies where no arena is")]
    Address { inode: InodeNumber, file_block: u64 },
    #[error("inode {inode}: an extent at block {file_block} overlaps the one before it")]
    Overlap { inode: InodeNumber, file_block: u64 },
    #[error("inode {inode} has blocks from {from_block} on, behind its end")]
    BehindEnd { inode: InodeNumber, from_block: u64 },
    #[error("the block at {address} belongs to inodes {first} and {second}")]
    Shared { address: BlockAddress, first: InodeNumber, second: InodeNumber },
    #[error("arena {arena}: {blocks} blocks count as used but belong to no file")]
    Leaked { arena: ArenaId, blocks: u32 },
    #[error("arena {arena}: {blocks} blocks of files count as free")]
    Unmarked { arena: ArenaId, blocks: u32 },
    #[error(
        "the window of session {session} at {address} has blocks of a file, of another window, or of no arena"
    )]
    Window { session: SessionId, address: BlockAddress },
    #[error("inode {0}: bytes behind its end are not zero")]
    Tail(InodeNumber),
    #[error("inode {inode}: {blocks} blocks of its content are damaged (their checksums are wrong)")]
    Content { inode: InodeNumber, blocks: u64 },
    #[error("symbolic link {0} has no target, or one of another length")]
    Target(InodeNumber),
    #[error("extents of inode {0} are in the table, where none should be")]
    StrayExtents(InodeNumber),
    #[error("inode {inode} has {counted} bytes of extended attributes but counts {bytes}")]
    Extended { inode: InodeNumber, counted: u64, bytes: u32 },
    #[error(
        "{payer} owns {} blocks and {} inodes, but {} and {} are counted",
        right.blocks, right.inodes, kept.blocks, kept.inodes
    )]
    Usage { payer: Payer, right: Amounts, kept: Amounts },
    #[error("directory {inode} counts for the quota of directory {tree}, but lies in that of {right}")]
    Tree { inode: InodeNumber, tree: InodeNumber, right: InodeNumber },
    #[error("inode {inode} does not say which access control lists it has")]
    Lists { inode: InodeNumber, access: bool, default: bool },
    #[error("inode {0} has extended attributes, but does not exist")]
    StrayExtended(InodeNumber),
    #[error("the record of a call of another user's program cannot be read")]
    Call(Vec<u8>),
    #[error("a repair that was broken off found: {0}")]
    Earlier(String),
    #[error(
        "inode {0} is in mapped mode, but the file with its content is missing: what was stored, written or cut since programs \
         mapped it is lost. Out of the mode, which --repair takes it, it holds what it held before, and maybe some of what came \
         since"
    )]
    MissingMapped(InodeNumber),
    #[error("a file with content of inode {0} was left behind, which is not in mapped mode")]
    StrayMapped(InodeNumber),
    #[error(
        "inode {0} may have lost that it is in mapped mode: the file with what was stored since then is now {1} (copy it where it \
         belongs, or remove it)"
    )]
    SetAside(InodeNumber, PathBuf),
    #[error("the store counts {counted} inodes and {counted_blocks} blocks, but holds {inodes} and {blocks}")]
    Totals { counted: u64, counted_blocks: u64, inodes: u64, blocks: u64 },
    #[error("{0}")]
    Log(LogLoss),
    #[error("told before: {0}")]
    LostBefore(String),
    #[error("the session table lacked {records} records, which its second copy has: it is mended from there")]
    SessionTable { records: usize },
    #[error(
        "inode {0} lost content with a damaged log: who reads it gets EIO until it is cut to nothing, removed, or --repair says that \
         what is left of it is to do"
    )]
    LostContent(InodeNumber),
    #[error(
        "a file of the log of session {session} is missing or was cut short; nothing that was acknowledged is lost by that"
    )]
    CutLog { session: SessionId },
}

impl Problem {
    /// Whether its repair loses something.
    pub(super) fn is_loss(&self) -> bool {
        matches!(
            self,
            Problem::Journal { .. }
                | Problem::MissingMapped(_)
                | Problem::Misplaced { .. }
                | Problem::Salvaged { .. }
                | Problem::NoRoot
                | Problem::Blocks { .. }
                | Problem::Totals { .. }
        )
    }
}
