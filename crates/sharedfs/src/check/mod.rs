//! The offline checker behind `cuesta fsck`: does everything the store holds fit together?
//!
//! It reads the metadata store from end to end and counts again what the digest keeps: names against inodes, link counts,
//! directory sizes, extents against bitmaps, the zeros behind the ends of files. Most of what can go wrong has one
//! safe repair; what has none is damage that is reported and left alone.
//!
//! | folder | idea |
//! |---|---|
//! | `survey` | what the store holds, and each [`Problem`] with it |
//! | `repair` | the one safe change for a problem that has one |
//! | `salvage` | metadata that is damaged in every copy |
//! | `losses` | what a repair drops, until it was told |
//! | `content` | content against its checksums |
//! | `logs` | what the logs hold that is not digested |
//! | `mapped` | the kernel's files of inodes in mapped mode |

mod content;
mod logs;
mod losses;
mod mapped;
mod repair;
mod salvage;
mod survey;

use crate::configuration::Options;
pub use crate::log_losses::LogLoss;
use crate::lost::{Lines, forget_all};
use crate::metadata::{CACHE_BYTES, Files, JournalFlaw, JournalLoss, MetadataError, MetadataStore, Owner};
use crate::superblocks::Superblocks;
use crate::tiers::{Arenas, LostArena, Needed, Parts, lost_arenas, medium_of_files};
use crate::{Error, SharedFs};
pub use content::check_content;
use cuesta_format::geometry::METADATA_FILE;
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::stamp::{Misplaced, Stamp};
use cuesta_format::{ArenaId, BlockAddress, InodeNumber, SessionId};
use losses::Losses;
pub(crate) use losses::is_untold;
pub use losses::told;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of a damaged log that are named.
const FILES_TOLD_MAX: usize = 64;

/// Something that does not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Problem {
    #[error("a copy of the superblock was not what it should be: {0}; the other was sound")]
    SuperblockCopy(String),
    #[error("a copy of the metadata was not what it should be: {0}; the other was sound")]
    MetadataCopy(String),
    #[error(
        "{}: {why}. It was taken all the same: what changed since then is lost, and files may hold bytes of other files", path.display()
    )]
    Misplaced { path: PathBuf, why: Misplaced },
    #[error("{0}")]
    LostArena(LostArena),
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
    #[error("{}", log_loss(.0))]
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

/// What a damaged log lost, for people.
fn log_loss(loss: &LogLoss) -> String {
    let LogLoss { session, end, acknowledged, entries, unknown_bytes, files, is_cut } = loss;
    if *is_cut && acknowledged <= end {
        return format!(
            "the log of session {session} is given up behind {end}, where a file of it is missing or was cut short: what was acknowledged \
             behind that is lost, if anything was"
        );
    }
    let inodes: Vec<String> = files.keys().take(FILES_TOLD_MAX).map(InodeNumber::to_string).collect();
    let files = match inodes.len() {
        0 => "no file whose number is known".to_owned(),
        FILES_TOLD_MAX => format!("inodes {} and maybe more", inodes.join(", ")),
        _ => format!("inodes {}", inodes.join(", ")),
    };
    format!(
        "the log of session {session} was damaged: it was acknowledged up to {acknowledged} and is whole up to {end}. Lost are {entries} \
         entries and {unknown_bytes} bytes of which nothing is known, and so content of {files}"
    )
}

impl Problem {
    /// Whether its repair loses something.
    fn is_loss(&self) -> bool {
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

/// What became of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Worth knowing; the store is sound.
    Noted,
    /// It was repaired.
    Repaired,
    /// It can be repaired, and was not asked to be.
    Repairable,
    /// There is no safe repair.
    Damaged,
}

/// A problem and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub problem: Problem,
    /// What became of it.
    pub verdict: Verdict,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// In the order they were found.
    pub findings: Vec<Finding>,
    /// Entries that were still in logs and are digested now.
    pub recovered_entries: u64,
    /// Inodes looked at.
    pub inodes: u64,
    /// Names looked at.
    pub names: u64,
    /// Blocks in use.
    pub blocks: u64,
}

impl CheckReport {
    /// The worst that was found; `None` if there was nothing.
    #[must_use]
    pub fn worst(&self) -> Option<Verdict> {
        self.findings.iter().map(|finding| finding.verdict).max()
    }

    /// Nothing but notes.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.worst().is_none_or(|worst| worst == Verdict::Noted)
    }
}

/// Whether the checker may change the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It only looks, at what was digested; logs stay as they are.
    Report,
    /// It digests what logs hold, then repairs what has a safe repair.
    Repair,
    /// The same, but what keeps the store closed is dropped first: the metadata's journal from its first damaged record on.
    /// Files whose content is missing are given up, too. No daemon opens the store until what was lost was [`told`].
    RepairWithLoss,
}

/// Whether pages of the metadata are damaged in every copy.
fn is_damaged(files: &Files) -> Result<bool, Error> {
    let opened = match MetadataStore::open_sound_part(files.clone()) {
        Err(MetadataError::Damaged(_)) => return Ok(true),
        // What else keeps it closed is told by who opens it.
        Err(_) => return Ok(false),
        Ok(opened) => opened,
    };
    Ok(opened.lost_pages()? > 0)
}

/// Checks a store nobody has open. Goes on with a repair that was broken off, but for [`Mode::Report`].
pub fn check(tier: &Path, mode: Mode) -> Result<CheckReport, Error> {
    let mut superblocks = Superblocks::read(tier)?;
    let superblock = superblocks.superblock;
    let verdict = if mode == Mode::Report { Verdict::Repairable } else { Verdict::Repaired };
    let mut report = CheckReport::default();
    let copies = superblocks.damage().map(|flaw| Problem::SuperblockCopy(flaw.to_string()));
    report.findings.extend(copies.map(|problem| Finding { problem, verdict }));
    if mode != Mode::Report {
        superblocks.heal(tier)?;
    }
    let path = tier.join(METADATA_FILE);
    let medium_of_files = medium_of_files(tier, superblock.medium);
    let mut losses = Losses::of_earlier(tier)?;
    let earlier = losses.clone().unwrap_or_default();
    let mut noted = Vec::new();
    let mut is_salvaged = false;
    let any = Files::new(&path, medium_of_files);
    let files = any.clone().of(Owner { store: superblock.store, now: superblocks.opening });
    let mut metadata = match mode {
        Mode::Report => MetadataStore::open_caching(files.only_looked_at(), CACHE_BYTES)?,
        Mode::Repair => MetadataStore::open_caching(files, CACHE_BYTES)?,
        Mode::RepairWithLoss => {
            let stamp = Stamp { store: superblock.store, what: 0, opening: superblocks.opening };
            if is_damaged(&files)? {
                let lost = salvage::salvage(tier, &files.clone().only_looked_at(), medium_of_files, &stamp)?;
                losses.get_or_insert_default().note(tier, std::iter::once(&lost))?;
                report.findings.push(Finding { problem: lost, verdict: Verdict::Repaired });
                is_salvaged = true;
            }
            let sound = match MetadataStore::open_sound_part(files) {
                Err(MetadataError::Misplaced { path, why }) => {
                    let lost = Problem::Misplaced { path, why };
                    losses.get_or_insert_default().note(tier, std::iter::once(&lost))?;
                    report.findings.push(Finding { problem: lost, verdict: Verdict::Repaired });
                    MetadataStore::open_sound_part(any)?
                }
                sound => sound?,
            };
            if let Some(JournalLoss { flaw, commits_kept }) = sound.loss() {
                let lost = Problem::Journal { flaw, commits_kept };
                let aside = mapped::plan_aside(tier, &sound.read()?)?;
                noted.extend(aside.iter().map(|(inode, path)| Problem::SetAside(*inode, path.clone())));
                let told = std::iter::once(&lost).chain(&noted);
                losses.get_or_insert_default().note(tier, told)?;
                mapped::set_aside(tier, &aside)?;
                report.findings.push(Finding { problem: lost, verdict: Verdict::Repaired });
            }
            let metadata = sound.drop_rest()?;
            metadata.stamp(&stamp)?;
            metadata
        }
    };
    let pages = metadata.scrub_copies()?;
    if pages > 0 {
        report.findings.push(Finding { problem: Problem::LostPages(pages), verdict: Verdict::Damaged });
    }
    if !metadata.check_pages()? {
        report.findings.push(Finding { problem: Problem::Pages, verdict: Verdict::Repaired });
    }
    let copies = metadata.flaws().into_iter().map(Problem::MetadataCopy);
    report.findings.extend(copies.map(|problem| Finding { problem, verdict }));
    noted.extend(logs::look(
        &*Parts::open(tier, superblock.store, &superblock.geometry)?,
        &superblock,
        &metadata,
    )?);
    let (damaged_logs, whole): (Vec<Problem>, Vec<Problem>) =
        noted.into_iter().partition(|problem| matches!(problem, Problem::Log(_)));
    noted = whole;
    let mut damaged = damaged_logs;
    let lost = Lines::of(tier)?;
    damaged.extend(lost.logs.into_iter().map(Problem::LostBefore));
    damaged.extend(lost.files.into_keys().map(Problem::LostContent));
    if mode != Mode::Report && !damaged.is_empty() {
        // The logs go when the store is opened.
        losses.get_or_insert_default().note(tier, damaged.iter())?;
    }
    let of_logs = if mode == Mode::RepairWithLoss { Verdict::Repaired } else { Verdict::Damaged };
    report.findings.extend(damaged.into_iter().map(|problem| Finding { problem, verdict: of_logs }));
    // The store, when it is opened, takes them away.
    noted.extend(mapped::strays(tier, &metadata.read()?)?);
    report.findings.extend(noted.into_iter().map(|problem| Finding { problem, verdict: Verdict::Noted }));
    let parts = Parts::open(tier, superblock.store, &superblock.geometry)?;
    let written_in = metadata.read()?.arenas_written_in()?;
    let needed = Needed { store: superblock.store, written_in: &written_in };
    let lost = lost_arenas(&parts, &superblock.geometry, &needed)?;
    let is_arena_lost = !lost.is_empty();
    report.findings.extend(
        lost.into_iter()
            .map(|arena| Finding { problem: Problem::LostArena(arena), verdict: Verdict::Damaged }),
    );
    if mode == Mode::Report && is_arena_lost {
        // Nothing can be compared with it.
        return Ok(report);
    }
    if is_salvaged {
        let arenas = Arenas::open(&parts, superblock.geometry, superblock.medium, &Arc::default())?;
        let inode_limit = logs::inode_limit(tier, &superblock)?;
        report.findings.extend(salvage::settle(&metadata, &arenas, superblock.geometry, inode_limit)?);
    }
    if mode != Mode::Report {
        let gives_up = mode == Mode::RepairWithLoss && mapped::is_any_missing(tier, &metadata.read()?)?;
        drop(metadata);
        // What programs that still run know, or have mapped, is of what was lost, too.
        let await_sessions = !losses.as_ref().is_some_and(Losses::concern_all) && !gives_up;
        let options = Options { spare_segments: 0, spare_arenas: 0, await_sessions, ..Options::default() };
        let shared = SharedFs::open_untold(tier, tier, options)?;
        report.recovered_entries = shared.recovered().entries;
        shared.leave();
        drop(shared);
        if mode == Mode::RepairWithLoss {
            // What a broken off repair has lost stands among its losses until it was told.
            forget_all(tier)?;
        }
        metadata = MetadataStore::open(&path, medium_of_files)?;
    }
    let arenas = Arenas::open(
        &Parts::open(tier, superblock.store, &superblock.geometry)?,
        superblock.geometry,
        superblock.medium,
        &Arc::default(),
    )?;
    let inode_limit = logs::inode_limit(tier, &superblock)?;
    let mut surveyed = survey::survey(&metadata.read()?, &arenas, superblock.geometry, inode_limit)?;
    surveyed.problems.extend(mapped::missing(&surveyed.inodes, &mapped::files(tier)?));
    report.inodes = surveyed.inodes.len() as u64;
    report.names = surveyed.names;
    report.blocks = surveyed.blocks;
    let (repairable, damage): (Vec<Problem>, Vec<Problem>) =
        surveyed.problems.iter().cloned().partition(|problem| repair::has_repair(problem, mode));
    if mode != Mode::Report && !surveyed.problems.is_empty() {
        if losses.is_some() || repairable.iter().any(Problem::is_loss) {
            losses.get_or_insert_default().note(tier, repairable.iter())?;
        }
        repair::repair(&metadata, &arenas, superblock.geometry, &surveyed, &repairable)?;
    }
    report.findings.extend(repairable.into_iter().map(|problem| Finding { problem, verdict }));
    report.findings.extend(damage.into_iter().map(|problem| Finding { problem, verdict: Verdict::Damaged }));
    let told: BTreeSet<String> = report.findings.iter().map(|finding| finding.problem.to_string()).collect();
    let untold = earlier.lines().filter(|line| !told.contains(*line));
    let untold = untold.map(|line| Finding { problem: Problem::Earlier(line.to_owned()), verdict });
    report.findings.splice(0..0, untold.collect::<Vec<_>>());
    Ok(report)
}
