//! Where inodes are, for people: found by reading names, as nothing says it.

use super::snapshot::Snapshot;
use crate::metadata::MetadataError;
use cuesta_format::InodeNumber;

/// The path of a directory below the root, if it is there.
pub(crate) fn of_directory(
    snapshot: &Snapshot,
    directory: InodeNumber,
) -> Result<Option<Vec<u8>>, MetadataError> {
    let (mut names, mut at) = (Vec::new(), directory);
    while at != InodeNumber::ROOT {
        let Some(stored) = snapshot.inode(at)? else { return Ok(None) };
        let parent = stored.record.parent;
        let mut found = None;
        snapshot.visit_names(parent, b"", |name, dirent| {
            if dirent.inode == at {
                found = Some(name.to_vec());
            }
            found.is_none()
        })?;
        let Some(name) = found else { return Ok(None) };
        names.push(name);
        at = parent;
    }
    names.reverse();
    Ok(Some(names.join(&b'/')))
}

/// A path of anything else, if it has one: each name of the store is looked at.
pub(crate) fn of_file(snapshot: &Snapshot, file: InodeNumber) -> Result<Option<Vec<u8>>, MetadataError> {
    let mut found = None;
    snapshot.visit_entries(|parent, entry| {
        if entry.dirent.inode == file && found.is_none() {
            found = Some((parent, entry.name));
        }
    })?;
    let Some((parent, name)) = found else { return Ok(None) };
    let above = of_directory(snapshot, parent)?;
    Ok(above.map(|above| if above.is_empty() { name } else { [above, name].join(&b'/') }))
}
