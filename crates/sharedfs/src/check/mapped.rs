//! The kernel's files of the inodes in mapped mode: such a file is all the content there is, so that one that is missing is
//! damage nothing can mend. One that no inode counts on is what a daemon left that was killed on its way into the mode or
//! out of it; the next takes it away, and so does a repair.

use super::Problem;
use super::survey::Seen;
use crate::Error;
use crate::metadata::Snapshot;
use cuesta_format::InodeNumber;
use cuesta_format::geometry::{MAPPED_FOLDER, REFERENCES_FOLDER};
use cuesta_media::mapped_files;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

/// The inodes there are files for.
pub(super) fn files(tier: &Path) -> Result<BTreeSet<InodeNumber>, Error> {
    let references = tier.join(REFERENCES_FOLDER);
    if !references.join(MAPPED_FOLDER).exists() {
        return Ok(BTreeSet::new());
    }
    let references = File::open(references).map_err(Error::io("open a folder"))?;
    let list = mapped_files::list(references).map_err(Error::errno("list files in mapped mode"))?;
    Ok(list.into_iter().collect())
}

/// Files that nothing counts on.
pub(super) fn strays(tier: &Path, snapshot: &Snapshot) -> Result<Vec<Problem>, Error> {
    let mut problems = Vec::new();
    for inode in files(tier)? {
        if !snapshot.inode(inode)?.is_some_and(|stored| stored.record.mapped) {
            problems.push(Problem::StrayMapped(inode));
        }
    }
    Ok(problems)
}

/// Inodes whose files are missing.
pub(super) fn missing(
    inodes: &BTreeMap<InodeNumber, Seen>,
    files: &BTreeSet<InodeNumber>,
) -> impl Iterator<Item = Problem> {
    let mapped = inodes.values().filter(|seen| seen.record.mapped).map(|seen| seen.record.inode);
    mapped.filter(|inode| !files.contains(inode)).map(Problem::MissingMapped)
}
