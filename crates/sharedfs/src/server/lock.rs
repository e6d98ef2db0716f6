//! One daemon a store: advisory locks that the kernel drops with their holder, however that dies.
//!
//! | locked | so that |
//! |---|---|
//! | the store's folder itself | nothing in it can be removed, `lock` included, to let a second daemon in |
//! | the fast tier's folder | two folders whose links lead to one tier, as copies have, are not both served |
//! | the file `lock` | daemons of earlier versions, which know only this one, are kept out; it says who has the store |
//!
//! A file system that has no locks of folders (NFS) leaves the file alone.

use crate::store::trust::{TrustError, TrustedFolder, TrustedStore};
use cuesta_format::geometry::LOCK_FILE;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::Path;

/// The kernel's list of locks and their processes.
const LOCKS: &str = "/proc/locks";
/// A shorter list is read in one piece.
const PAGE_BYTES: usize = 3 << 10;

/// Why the lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("store in use by process {holder}")]
    Held {
        /// Its process id, as far as it is known.
        holder: String,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {path}: {source}")]
    File {
        /// The lock file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// The locks on a store; held until dropped.
#[derive(Debug)]
pub struct StoreLock {
    // Opened first: of a process that ends the kernel closes descriptors in the order of their numbers, and the file is what
    // others wait for.
    _folders: Vec<OwnedFd>,
    _file: File,
}

impl StoreLock {
    /// Takes the locks, or says which process has them.
    pub fn take(store: &TrustedStore) -> Result<StoreLock, LockError> {
        let folder = store.folder();
        let path = folder.named().join(LOCK_FILE);
        let fail = |source: std::io::Error| LockError::File { path: path.display().to_string(), source };
        let held = || LockError::Held { holder: holder(folder).unwrap_or_else(|| "unknown".to_owned()) };
        let mut folders = Vec::new();
        for locked in [folder, store.tier()] {
            let own = open_again(locked).map_err(|errno| fail(errno.into()))?;
            if !lock(&own).map_err(|errno| fail(errno.into()))? {
                return Err(held());
            }
            folders.push(own);
        }
        let mut file = open_lock_file(folder).map_err(|errno| fail(errno.into()))?;
        if !lock(&file).map_err(|errno| fail(errno.into()))? {
            return Err(held());
        }
        write_holder(&mut file).map_err(fail)?;
        Ok(StoreLock { _folders: folders, _file: file })
    }

    /// Puts the lock file back that was removed, for daemons of earlier versions and for people.
    pub fn put_back(&mut self, folder: &TrustedFolder) -> std::io::Result<()> {
        let mut file = open_lock_file(folder)?;
        if !lock(&file)? {
            return Err(Errno::BUSY.into());
        }
        write_holder(&mut file)?;
        self._file = file;
        Ok(())
    }
}

impl TrustedFolder {
    /// Whether a process has it locked, as a store's folder or as a fast tier.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        open_again(self).and_then(|own| lock(&own)) == Ok(false)
    }
}

/// The process that has the store in `folder`, if one has.
pub fn holder_of(folder: &Path, owner: u32) -> Result<Option<String>, TrustError> {
    let folder = TrustedFolder::open(folder, owner)?;
    Ok(if is_locked(&folder) { holder(&folder) } else { None })
}

fn is_locked(folder: &TrustedFolder) -> bool {
    // A lock that is had is dropped at once.
    let file = openat(
        folder,
        LOCK_FILE,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    );
    folder.is_locked() || file.and_then(|file| lock(&file)) == Ok(false)
}

fn open_again(folder: &TrustedFolder) -> Result<OwnedFd, Errno> {
    openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn open_lock_file(folder: &TrustedFolder) -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    openat(folder, LOCK_FILE, flags, Mode::RUSR | Mode::WUSR).map(File::from)
}

/// Locks a file. `false`: another process has it locked.
fn lock(file: impl rustix::fd::AsFd) -> Result<bool, Errno> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) | Err(Errno::BADF | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn write_holder(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    match writeln!(file, "{}", std::process::id()) {
        // A full disk is checked and served all the same: the lock counts, and the holder is only told.
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Ok(()),
        written => written,
    }
}

/// The kernel's list is read so often, at most. The kernel hands it out in pages, and can leave out a lock when other locks are dropped
/// between two of them.
const READINGS_MAX: usize = 100;

/// The process that has the store, which is locked: as the kernel says, or else as the lock file does.
fn holder(folder: &TrustedFolder) -> Option<String> {
    let stat = fstat(folder).ok();
    let by_kernel = stat.and_then(|stat| holder_listed(folder, stat.st_dev, stat.st_ino));
    by_kernel.map(|pid| pid.to_string()).or_else(|| {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(folder, LOCK_FILE, flags, Mode::empty()).ok()?);
        let mut text = String::new();
        file.take(32).read_to_string(&mut text).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    })
}

/// The process that has the folder locked, by the kernel's list, unless none has it any more or it cannot be seen.
fn holder_listed(folder: &TrustedFolder, device: u64, inode: u64) -> Option<u32> {
    for _ in 0..READINGS_MAX {
        let listed = std::fs::read_to_string(LOCKS).unwrap_or_default();
        match holder_in(&listed, device, inode) {
            None if listed.len() >= PAGE_BYTES && folder.is_locked() => {}
            found => return found,
        }
    }
    None
}

/// The process that has a file locked as a whole: `1: FLOCK  ADVISORY  WRITE 123 fe:01:456 0 EOF`.
fn holder_in(listed: &str, device: u64, inode: u64) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
    let of_file = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&file.as_str())
    };
    let pid = listed.lines().find(of_file)?.split_whitespace().nth(4)?;
    // A process that this one cannot see has no number here.
    pid.parse().ok().filter(|pid| *pid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::trust::{Purpose, TrustedStore};
    use std::os::unix::fs::{DirBuilderExt as _, symlink};
    use std::path::PathBuf;

    struct Stores {
        _guard: tempfile::TempDir,
        store: PathBuf,
        copy: PathBuf,
    }

    /// A store whose tier is elsewhere, and a copy of its folder with the same link.
    fn stores() -> Stores {
        let guard = tempfile::tempdir().unwrap();
        let (tier, store, copy) =
            (guard.path().join("tier"), guard.path().join("store"), guard.path().join("copy"));
        for folder in [&tier, &store, &copy] {
            std::fs::DirBuilder::new().mode(0o700).create(folder).unwrap();
        }
        for folder in [&store, &copy] {
            symlink(&tier, folder.join("nvm")).unwrap();
        }
        Stores { store, copy, _guard: guard }
    }

    fn take(path: &Path) -> Result<StoreLock, LockError> {
        StoreLock::take(&TrustedStore::open(path, Purpose::Look).unwrap())
    }

    #[test]
    fn a_second_daemon_learns_which_process_has_the_store() {
        let stores = stores();
        let first = take(&stores.store).unwrap();
        let refused = take(&stores.store).unwrap_err().to_string();
        assert_eq!(refused, format!("store in use by process {}", std::process::id()));
        drop(first);
        take(&stores.store).unwrap();
    }

    #[test]
    fn a_removed_lock_file_lets_no_daemon_in() {
        let stores = stores();
        let mut first = take(&stores.store).unwrap();
        std::fs::remove_file(stores.store.join(LOCK_FILE)).unwrap();
        let refused = take(&stores.store).unwrap_err().to_string();
        assert_eq!(refused, format!("store in use by process {}", std::process::id()));
        let us = rustix::process::geteuid().as_raw();
        assert_eq!(holder_of(&stores.store, us).unwrap(), Some(std::process::id().to_string()));
        first.put_back(&TrustedFolder::open(&stores.store, us).unwrap()).unwrap();
        let said = std::fs::read_to_string(stores.store.join(LOCK_FILE)).unwrap();
        assert_eq!(said, format!("{}\n", std::process::id()));
        assert!(take(&stores.store).is_err());
        drop(first);
        assert_eq!(holder_of(&stores.store, us).unwrap(), None);
    }

    #[test]
    fn one_fast_tier_is_served_to_one_store() {
        let stores = stores();
        let _first = take(&stores.store).unwrap();
        assert!(matches!(take(&stores.copy), Err(LockError::Held { .. })));
    }

    #[test]
    fn the_kernels_list_is_read() {
        let listed = "1: POSIX  ADVISORY  WRITE 77 fe:01:456 0 EOF\n2: FLOCK  ADVISORY  WRITE 123 fe:01:456 0 EOF\n\
                      3: FLOCK  ADVISORY  WRITE 0 00:1a:9 0 EOF\n";
        assert_eq!(holder_in(listed, rustix::fs::makedev(0xfe, 1), 456), Some(123));
        assert_eq!(holder_in(listed, rustix::fs::makedev(0, 0x1a), 9), None);
        assert_eq!(holder_in(listed, rustix::fs::makedev(0xfe, 1), 457), None);
    }
}
