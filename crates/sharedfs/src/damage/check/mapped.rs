//! The kernel's files of the inodes in mapped mode. Such a file is all the content there is. If one is missing,
//! nothing can mend that: the inode is taken out of the mode only by a repair that may lose something. If no inode
//! counts on a file, a daemon was killed on its way into the mode or out of it: the next daemon takes the file
//! away, and so does a repair. But where commits were lost, the one that began the mode may be among them, and the
//! content stored since then lies nowhere else: such files are set aside.

use super::problem::Problem;
use super::survey::Seen;
use crate::Error;
use crate::metadata::Snapshot;
use crate::store::sync_folder;
use cuesta_format::geometry::{MAPPED_FOLDER, REFERENCES_FOLDER};
use cuesta_format::{InodeNumber, InodeRecord};
use cuesta_media::mapped_files;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Where in a tier files are set aside.
const SET_ASIDE_FOLDER: &str = "set-aside";

/// The inodes there are files for.
pub(crate) fn files(tier: &Path) -> Result<BTreeSet<InodeNumber>, Error> {
    let references = tier.join(REFERENCES_FOLDER);
    if !references.join(MAPPED_FOLDER).exists() {
        return Ok(BTreeSet::new());
    }
    let references = File::open(references).map_err(Error::io("open a folder"))?;
    let list = mapped_files::list(references).map_err(Error::errno("list files in mapped mode"))?;
    Ok(list.into_iter().collect())
}

/// Files that nothing counts on.
pub(crate) fn strays(tier: &Path, snapshot: &Snapshot) -> Result<Vec<Problem>, Error> {
    Ok(uncounted(tier, snapshot)?.into_iter().map(Problem::StrayMapped).collect())
}

/// The inodes of files that nothing counts on, and where these are to be moved.
pub(crate) fn plan_aside(tier: &Path, snapshot: &Snapshot) -> Result<Vec<(InodeNumber, PathBuf)>, Error> {
    // The report is for people: a path of this process alone is of no use to them.
    let folder = tier.canonicalize().unwrap_or_else(|_| tier.to_owned()).join(SET_ASIDE_FOLDER);
    let plan = uncounted(tier, snapshot)?.into_iter().map(|inode| {
        let name = inode.0.to_string();
        // What an earlier repair set aside stays.
        let later = (2..).map(|time| folder.join(format!("{name}-{time}")));
        let free = std::iter::once(folder.join(&name)).chain(later).find(|path| !path.exists());
        (inode, free.unwrap_or_else(|| folder.join(&name)))
    });
    Ok(plan.collect())
}

/// Moves them to where no daemon takes them away.
pub(crate) fn set_aside(tier: &Path, plan: &[(InodeNumber, PathBuf)]) -> Result<(), Error> {
    if plan.is_empty() {
        return Ok(());
    }
    let folder = tier.join(SET_ASIDE_FOLDER);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(Error::io("make a folder"))?;
    let mapped = tier.join(REFERENCES_FOLDER).join(MAPPED_FOLDER);
    for (inode, told) in plan {
        let target = told.file_name().map_or_else(|| told.clone(), |name| folder.join(name));
        std::fs::rename(mapped.join(inode.0.to_string()), target).map_err(Error::io("set a file aside"))?;
    }
    [tier, &folder, &mapped].into_iter().try_for_each(sync_folder)
}

fn uncounted(tier: &Path, snapshot: &Snapshot) -> Result<Vec<InodeNumber>, Error> {
    let mut found = Vec::new();
    for inode in files(tier)? {
        if !snapshot.inode(inode)?.is_some_and(|stored| stored.record.mapped) {
            found.push(inode);
        }
    }
    Ok(found)
}

fn is_missing(record: &InodeRecord, files: &BTreeSet<InodeNumber>) -> bool {
    record.mapped && !files.contains(&record.inode)
}

/// Whether the file of an inode is missing.
pub(crate) fn is_any_missing(tier: &Path, snapshot: &Snapshot) -> Result<bool, Error> {
    let (files, mut found) = (files(tier)?, false);
    snapshot.visit_inodes(|stored| found |= is_missing(&stored.record, &files))?;
    Ok(found)
}

/// Inodes whose files are missing.
pub(crate) fn missing(
    inodes: &BTreeMap<InodeNumber, Seen>,
    files: &BTreeSet<InodeNumber>,
) -> impl Iterator<Item = Problem> {
    let missing = inodes.values().filter(|seen| is_missing(&seen.record, files));
    missing.map(|seen| Problem::MissingMapped(seen.record.inode))
}
