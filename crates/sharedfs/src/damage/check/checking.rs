//! The check, from the superblock to the content, and the repairs in their order.

use super::losses::Losses;
use super::problem::Problem;
use super::report::{CheckReport, Finding, Mode, Verdict};
use super::{logs, mapped, repair, salvage, survey, windows};
use crate::damage::{Lines, forget_all};
use crate::metadata::{CACHE_BYTES, Files, JournalLoss, MetadataError, MetadataStore, Owner};
use crate::store::{Options, Superblocks};
use crate::tiers::{LowerTier, Needed, Parts, lost_arenas, medium_of_files, open_arenas};
use crate::{Error, SharedFs};
use cuesta_format::TierNumber;
use cuesta_format::geometry::METADATA_FILE;
use cuesta_format::stamp::Stamp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Whether pages of the metadata are damaged in every copy.
fn is_damaged(files: &Files) -> Result<bool, Error> {
    let opened = match MetadataStore::open_sound_part(files.clone()) {
        Err(MetadataError::Damaged(_)) => return Ok(true),
        // Any other reason that keeps it closed is told by its opening.
        Err(_) => return Ok(false),
        Ok(opened) => opened,
    };
    Ok(opened.lost_pages()? > 0)
}

/// Checks a store with one tier ([`check_tiers`]).
pub fn check(tier: &Path, mode: Mode) -> Result<CheckReport, Error> {
    check_tiers(tier, &BTreeMap::new(), mode)
}

/// Checks a store that no daemon has open. `lower` are its lower tiers, as its configuration has them. Goes on with a
/// repair that was broken off, but for [`Mode::Report`].
pub fn check_tiers(
    tier: &Path,
    lower: &BTreeMap<String, LowerTier>,
    mode: Mode,
) -> Result<CheckReport, Error> {
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
    let written_in = metadata.read()?.arenas_written_in(TierNumber::FAST)?;
    let needed = Needed { store: superblock.store, tier: TierNumber::FAST, written_in: &written_in };
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
    let options = Options { tier: lower.clone(), ..Options::default() };
    let lower = options.lower_tiers();
    let open_arenas = |metadata: &MetadataStore| {
        open_arenas(&parts, &superblock, &metadata.read()?, &lower, &Arc::default(), None)
    };
    if is_salvaged {
        let arenas = open_arenas(&metadata)?;
        let inode_limit = logs::inode_limit(tier, &superblock)?;
        report.findings.extend(salvage::settle(&metadata, &arenas, superblock.geometry, inode_limit)?);
    }
    if mode != Mode::Report {
        let gives_up = mode == Mode::RepairWithLoss && mapped::is_any_missing(tier, &metadata.read()?)?;
        drop(metadata);
        // What programs that still run know, or have mapped, is of what was lost, too.
        let await_sessions = !losses.as_ref().is_some_and(Losses::concern_all) && !gives_up;
        let options = Options { spare_segments: 0, spare_arenas: 0, await_sessions, ..options };
        let shared = SharedFs::open_untold(tier, tier, options)?;
        report.recovered_entries = shared.recovered().entries;
        shared.leave();
        drop(shared);
        if mode == Mode::RepairWithLoss {
            // The losses of a broken off repair are kept until they were told.
            forget_all(tier)?;
        }
        metadata = MetadataStore::open(&path, medium_of_files)?;
    }
    let arenas = open_arenas(&metadata)?;
    report.findings.extend(arenas.missing().map(|tier| {
        let why = arenas.why_missing(tier).unwrap_or_default().to_owned();
        Finding { problem: Problem::TierMissing { tier, why }, verdict: Verdict::Damaged }
    }));
    let inode_limit = logs::inode_limit(tier, &superblock)?;
    let mut surveyed = survey::survey(&metadata.read()?, &arenas, superblock.geometry, inode_limit)?;
    surveyed.problems.extend(windows::problems(tier, &superblock, &metadata.read()?, &surveyed.used)?);
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
