//! Metadata that is damaged in every copy: what can be read of it takes its place, and what was there is kept in a folder.

use super::problem::Problem;
use super::report::{Finding, Mode, Verdict};
use super::{repair, survey};
use crate::Error;
use crate::metadata::{Files, MetadataStore};
use crate::store::sync_folder;
use crate::tiers::Arenas;
use cuesta_format::geometry::{METADATA_COPY_FILE, METADATA_FILE};
use cuesta_format::stamp::Stamp;
use cuesta_format::{Geometry, InodeNumber, Medium};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where the damaged files are kept.
const FOLDER: &str = "damaged";
/// The new file, until it takes the place of the old one, and its second copy.
const UNFINISHED: [&str; 2] = ["salvage.redb", "salvage.copy"];
/// One repair mends problems that another one finds: a directory that is gone leaves its files without a name.
const ROUNDS_MAX: usize = 8;

fn unless_missing(done: std::io::Result<()>) -> std::io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Puts what can be read of the metadata in its place.
pub(crate) fn salvage(tier: &Path, files: &Files, medium: Medium, stamp: &Stamp) -> Result<Problem, Error> {
    let failed = Error::io("salvage the metadata");
    let unfinished = UNFINISHED.map(|name| tier.join(name));
    for path in &unfinished {
        unless_missing(std::fs::remove_file(path)).map_err(&failed)?;
    }
    let (store, lost) = MetadataStore::salvage(files, &unfinished[0], medium)?;
    store.stamp(stamp)?;
    store.leave();
    drop(store);
    let aside = set_aside(tier).map_err(&failed)?;
    for (unfinished, name) in unfinished.iter().zip([METADATA_FILE, METADATA_COPY_FILE]) {
        unless_missing(std::fs::rename(unfinished, tier.join(name))).map_err(&failed)?;
    }
    sync_folder(tier)?;
    Ok(Problem::Salvaged { aside, lost })
}

/// Keeps the damaged files under names of their own, too.
fn set_aside(tier: &Path) -> std::io::Result<PathBuf> {
    let folder = tier.join(FOLDER);
    match std::fs::create_dir(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for name in [METADATA_FILE, METADATA_COPY_FILE] {
        let kept = folder.join(name);
        unless_missing(std::fs::remove_file(&kept))?;
        unless_missing(std::fs::hard_link(tier.join(name), kept))?;
    }
    Ok(folder)
}

/// Makes what was salvaged fit together, before anything is digested into it: blocks of files must not count as free.
pub(crate) fn settle(
    metadata: &MetadataStore,
    arenas: &Arenas,
    geometry: Geometry,
    inode_limit: InodeNumber,
) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let surveyed = survey::survey(&metadata.read()?, arenas, geometry, inode_limit)?;
        let wanted = |problem: &&Problem| repair::has_repair(problem, Mode::RepairWithLoss);
        let repairable: Vec<Problem> = surveyed.problems.iter().filter(wanted).cloned().collect();
        if repairable.is_empty() && !findings.is_empty() {
            break;
        }
        repair::repair(metadata, arenas, geometry, &surveyed, &repairable)?;
        if repairable.is_empty() {
            break;
        }
        let repaired = |problem| Finding { problem, verdict: Verdict::Repaired };
        findings.extend(repairable.into_iter().map(repaired));
    }
    Ok(findings)
}
