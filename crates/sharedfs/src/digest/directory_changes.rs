//! Changes of directories that several sessions change in turns. A session that knew all names when it lost its
//! lease needs no more than the changes since then.
//!
//! Digests note them as they commit, from the moment a session was fenced for a directory until none has asked for
//! a while. A version says how many changes had been noted, and nothing else. No session goes by one of another
//! daemon.

use crate::metadata::Dirent;
use cuesta_format::InodeNumber;
use cuesta_format::wire::DirectoryEntry;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Changes kept of one directory, at most,
const CHANGES_MAX: usize = 16 << 10;
/// and of all together: more changes cost the least wanted directory its place.
const CHANGES_MAX_IN_ALL: usize = 64 << 10;
/// Directories followed at once.
const DIRECTORIES_MAX: usize = 256;
/// A directory that no session asked for that long is not followed any more.
const MEMORY: Duration = Duration::from_secs(10);

/// A name that was made, changed or taken away.
#[derive(Debug)]
struct Change {
    version: u64,
    name: Box<[u8]>,
    now: Option<Dirent>,
}

#[derive(Debug)]
struct Followed {
    /// The noted changes begin behind this version.
    since: u64,
    changes: VecDeque<Change>,
    asked: Instant,
}

#[derive(Debug, Default)]
struct Inner {
    version: u64,
    changes: usize,
    directories: HashMap<InodeNumber, Followed>,
}

/// The changes.
#[derive(Debug, Default)]
pub(crate) struct DirectoryChanges {
    inner: Mutex<Inner>,
}

impl DirectoryChanges {
    /// The version the shared area has now, for the session that loses its lease on `directory`. From here on
    /// the directory's changes are noted.
    pub(crate) fn follow(&self, directory: InodeNumber) -> u64 {
        let mut inner = self.inner.lock();
        let asked = Instant::now();
        let version = inner.version;
        if let Some(followed) = inner.directories.get_mut(&directory) {
            followed.asked = asked;
            return version;
        }
        if inner.directories.len() >= DIRECTORIES_MAX {
            inner.drop_least_wanted();
        }
        // Changes from before it was followed lie before this.
        inner.version += 1;
        let version = inner.version;
        inner.directories.insert(directory, Followed { since: version, changes: VecDeque::new(), asked });
        version
    }

    /// Notes changes that a digest is about to publish: names, their directories, and the inodes they name now.
    pub(crate) fn note<'a>(
        &self,
        names: impl Iterator<Item = (InodeNumber, &'a [u8], Option<Dirent>)>,
        removed: impl Iterator<Item = InodeNumber>,
    ) {
        let mut inner = self.inner.lock();
        if inner.directories.is_empty() {
            return;
        }
        inner.version += 1;
        let Inner { version, changes, directories } = &mut *inner;
        for (directory, name, now) in names {
            let Some(followed) = directories.get_mut(&directory) else { continue };
            if followed.changes.len() == CHANGES_MAX
                && let Some(first) = followed.changes.pop_front()
            {
                followed.since = first.version;
                *changes -= 1;
            }
            followed.changes.push_back(Change { version: *version, name: name.into(), now });
            *changes += 1;
        }
        for directory in removed {
            if let Some(followed) = directories.remove(&directory) {
                *changes -= followed.changes.len();
            }
        }
        inner.forget_unwanted();
    }

    /// When `directory` was changed last, as far as that was noted.
    pub(crate) fn last_change(&self, directory: InodeNumber) -> u64 {
        let inner = self.inner.lock();
        let last = inner.directories.get(&directory).and_then(|followed| followed.changes.back());
        last.map_or(0, |change| change.version)
    }

    /// The names of `directory` that changed behind `version`, in the order they did; `None`: that is not known.
    pub(crate) fn since(&self, directory: InodeNumber, version: u64) -> Option<Vec<DirectoryEntry>> {
        let mut inner = self.inner.lock();
        let followed = inner.directories.get_mut(&directory)?;
        followed.asked = Instant::now();
        if version < followed.since {
            return None;
        }
        let first = followed.changes.partition_point(|change| change.version <= version);
        Some(followed.changes.range(first..).map(|change| entry(&change.name, change.now)).collect())
    }
}

/// A name as it is sent to a session that catches up.
pub(crate) fn entry(name: &[u8], now: Option<Dirent>) -> DirectoryEntry {
    let (inode, kind) = now.map_or((InodeNumber::NONE, 0), |dirent| (dirent.inode, dirent.kind as u8));
    DirectoryEntry { name: name.to_vec(), inode, kind }
}

impl Inner {
    fn forget_unwanted(&mut self) {
        let wanted = |followed: &Followed| followed.asked.elapsed() < MEMORY;
        let changes = &mut self.changes;
        self.directories.retain(|_, followed| {
            let keep = wanted(followed);
            *changes -= if keep { 0 } else { followed.changes.len() };
            keep
        });
        while self.changes > CHANGES_MAX_IN_ALL {
            self.drop_least_wanted();
        }
    }

    fn drop_least_wanted(&mut self) {
        let least = self.directories.iter().min_by_key(|(_, followed)| followed.asked);
        let Some(&directory) = least.map(|(directory, _)| directory) else { return };
        if let Some(followed) = self.directories.remove(&directory) {
            self.changes -= followed.changes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::FileKind;

    const HOME: InodeNumber = InodeNumber(7);
    const OTHER: InodeNumber = InodeNumber(8);

    fn named(inode: u64) -> Option<Dirent> {
        Some(Dirent { inode: InodeNumber(inode), kind: FileKind::File })
    }

    fn note(directory_changes: &DirectoryChanges, names: &[(InodeNumber, &str, Option<Dirent>)]) {
        let names = names.iter().map(|&(directory, name, now)| (directory, name.as_bytes(), now));
        directory_changes.note(names, std::iter::empty());
    }

    fn since(directory_changes: &DirectoryChanges, version: u64) -> Option<Vec<(String, u64)>> {
        let entries = directory_changes.since(HOME, version)?;
        let text = |entry: DirectoryEntry| (String::from_utf8(entry.name).unwrap(), entry.inode.0);
        Some(entries.into_iter().map(text).collect())
    }

    fn pair(name: &str, inode: u64) -> (String, u64) {
        (name.to_owned(), inode)
    }

    #[test]
    fn a_session_is_told_later_changes_of_its_directory_only() {
        let directory_changes = DirectoryChanges::default();
        note(&directory_changes, &[(HOME, "before", named(9))]);
        let first = directory_changes.follow(HOME);
        note(&directory_changes, &[(HOME, "a", named(10)), (OTHER, "b", named(11))]);
        let second = directory_changes.follow(HOME);
        note(&directory_changes, &[(HOME, "a", None), (HOME, "c", named(12))]);
        let gone = InodeNumber::NONE.0;
        assert_eq!(
            since(&directory_changes, first).unwrap(),
            [pair("a", 10), pair("a", gone), pair("c", 12)]
        );
        assert_eq!(since(&directory_changes, second).unwrap(), [pair("a", gone), pair("c", 12)]);
        assert_eq!(since(&directory_changes, directory_changes.follow(HOME)).unwrap(), []);
        assert!(directory_changes.since(OTHER, second).is_none(), "no session was fenced for that one");
    }

    #[test]
    fn changes_before_a_directory_is_followed_are_not_left_out() {
        let directory_changes = DirectoryChanges::default();
        let version = directory_changes.follow(HOME);
        directory_changes.inner.lock().directories.clear();
        note(&directory_changes, &[(HOME, "missed", named(10))]);
        directory_changes.follow(HOME);
        assert_eq!(since(&directory_changes, version), None);
    }

    #[test]
    fn forgotten_changes_are_not_told_in_part() {
        let directory_changes = DirectoryChanges::default();
        let version = directory_changes.follow(HOME);
        let change = [(HOME, "a", named(10))];
        (0..CHANGES_MAX).for_each(|_| note(&directory_changes, &change));
        assert_eq!(since(&directory_changes, version).unwrap().len(), CHANGES_MAX);
        note(&directory_changes, &change);
        assert_eq!(since(&directory_changes, version), None);
        assert_eq!(since(&directory_changes, version + 1).unwrap().len(), CHANGES_MAX);
        directory_changes.note(std::iter::empty(), std::iter::once(HOME));
        assert_eq!(since(&directory_changes, version + 1), None, "the directory is gone");
        assert_eq!(directory_changes.inner.lock().changes, 0);
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let directory_changes = DirectoryChanges::default();
        let directories = 2 * DIRECTORIES_MAX as u64;
        for directory in 0..directories {
            directory_changes.follow(InodeNumber(directory + 10));
            let names =
                (0..CHANGES_MAX / 4).map(|_| (InodeNumber(directory + 10), b"name".as_slice(), named(5)));
            directory_changes.note(names, std::iter::empty());
            let inner = directory_changes.inner.lock();
            let sum: usize = inner.directories.values().map(|followed| followed.changes.len()).sum();
            assert_eq!(sum, inner.changes);
            assert!(sum <= CHANGES_MAX_IN_ALL && inner.directories.len() <= DIRECTORIES_MAX);
        }
        assert!(directory_changes.since(InodeNumber(directories + 9), 0).is_none());
        assert!(directory_changes.inner.lock().directories.contains_key(&InodeNumber(directories + 9)));
    }
}
