//! Paths: which file system they are on, and their normal form.

use rustix::fs::statfs;
use std::path::{Component, Path, PathBuf};

const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// Whether files in `folder` are memory.
pub fn is_memory(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|found| {
        #[allow(clippy::unnecessary_cast, reason = "the field's type differs between machines")]
        let magic = found.f_type as i64;
        [TMPFS_MAGIC, RAMFS_MAGIC, HUGETLBFS_MAGIC].contains(&magic)
    })
}

/// The directory that decides which file system `path` will be on.
pub fn existing_ancestor(path: &Path) -> PathBuf {
    let found = path.ancestors().find(|ancestor| ancestor.is_dir());
    found.filter(|ancestor| !ancestor.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
}

/// The path without `.`, `..` and repeated slashes, if it is absolute and not the root.
pub fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    (normal.is_absolute() && normal.parent().is_some()).then_some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_normal() {
        assert_eq!(normal(Path::new("/a//b/./../c/")), Some(PathBuf::from("/a/c")));
        assert_eq!(normal(Path::new("/cuesta")), Some(PathBuf::from("/cuesta")));
        for path in ["/", "a/b", "", "/..", "/a/.."] {
            assert_eq!(normal(Path::new(path)), None, "{path}");
        }
    }
}
