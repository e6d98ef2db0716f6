//! The files below a directory, one after the other, in the order of their names. Nothing is kept from one to the next but its path, so
//! names may come and go meanwhile.

use crate::metadata::{MetadataError, Snapshot};
use cuesta_format::{FileKind, InodeNumber};

/// The first file below a directory behind the one with a path, and its path below the directory. An empty path: the first of all.
pub(super) fn file_behind(
    snapshot: &Snapshot,
    top: InodeNumber,
    path: &[u8],
) -> Result<Option<(Vec<u8>, InodeNumber)>, MetadataError> {
    // The directories on the way down, each with the name in it that was met last.
    let mut way = vec![(top, Vec::new())];
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        let Some((directory, last)) = way.last_mut() else { break };
        name.clone_into(last);
        match snapshot.lookup(*directory, name)? {
            Some(found) if found.kind == FileKind::Directory => way.push((found.inode, Vec::new())),
            // It is the file, or gone.
            _ => break,
        }
    }
    while let Some((directory, last)) = way.last_mut() {
        let Some(next) = snapshot.list(*directory, last, 1)?.into_iter().next() else {
            way.pop();
            continue;
        };
        *last = next.name;
        let inode = next.dirent.inode;
        match next.dirent.kind {
            FileKind::Directory => way.push((inode, Vec::new())),
            FileKind::File => {
                let names: Vec<&[u8]> = way.iter().map(|(_, name)| name.as_slice()).collect();
                return Ok(Some((names.join(&b'/'), inode)));
            }
            _ => {}
        }
    }
    Ok(None)
}
