//! The kernel's files of the inodes in mapped mode: such a file is all the content there is, so that one that is missing is
//! damage nothing can mend. One that no inode counts on is what a daemon left that was killed on its way into the mode or
//! out of it; the next takes it away, and so does a repair. But where commits were lost, the one that began the mode may be
//! among them, and what was stored since then lies nowhere else: such files are set aside.

use super::Problem;
use super::survey::Seen;
use crate::Error;
use crate::metadata::Snapshot;
use cuesta_format::InodeNumber;
use cuesta_format::geometry::{MAPPED_FOLDER, REFERENCES_FOLDER};
use cuesta_media::mapped_files;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Where in a tier files are set aside.
const SET_ASIDE_FOLDER: &str = "set-aside";

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
    Ok(uncounted(tier, snapshot)?.into_iter().map(Problem::StrayMapped).collect())
}

/// Moves files that nothing counts on to where no daemon takes them away.
pub(super) fn set_aside(tier: &Path, snapshot: &Snapshot) -> Result<Vec<Problem>, Error> {
    let folder = tier.join(SET_ASIDE_FOLDER);
    let mut problems = Vec::new();
    for inode in uncounted(tier, snapshot)? {
        let name = inode.0.to_string();
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(Error::io("make a folder"))?;
        // What an earlier repair set aside stays.
        let later = (2..).map(|time| folder.join(format!("{name}-{time}")));
        let free = std::iter::once(folder.join(&name)).chain(later).find(|path| !path.exists());
        let target = free.unwrap_or_else(|| folder.join(&name));
        let source = tier.join(REFERENCES_FOLDER).join(MAPPED_FOLDER).join(&name);
        std::fs::rename(source, &target).map_err(Error::io("set a file aside"))?;
        problems.push(Problem::SetAside(inode, target));
    }
    Ok(problems)
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

/// Inodes whose files are missing.
pub(super) fn missing(
    inodes: &BTreeMap<InodeNumber, Seen>,
    files: &BTreeSet<InodeNumber>,
) -> impl Iterator<Item = Problem> {
    let mapped = inodes.values().filter(|seen| seen.record.mapped).map(|seen| seen.record.inode);
    mapped.filter(|inode| !files.contains(inode)).map(Problem::MissingMapped)
}
