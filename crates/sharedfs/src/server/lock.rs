//! One daemon a store: an advisory lock that the kernel drops with its holder, however that dies.

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

/// Why the lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("store in use by process {holder}")]
    Held {
        /// Its process id, as far as it said.
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

/// The lock on a store; held until dropped.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

impl StoreLock {
    /// Takes the lock, or says who has it.
    pub fn take(path: &Path) -> Result<StoreLock, LockError> {
        let fail = |source: std::io::Error| LockError::File { path: path.display().to_string(), source };
        let file = rustix::fs::open(
            path,
            OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::from_raw_mode(0o600),
        )
        .map_err(|errno| fail(errno.into()))?;
        let mut file = File::from(file);
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(fail)?;
                let holder = holder.trim();
                let holder = if holder.is_empty() { "unknown" } else { holder };
                return Err(LockError::Held { holder: holder.to_owned() });
            }
            Err(errno) => return Err(fail(errno.into())),
        }
        file.set_len(0).map_err(fail)?;
        file.rewind().map_err(fail)?;
        writeln!(file, "{}", std::process::id()).map_err(fail)?;
        Ok(StoreLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_daemon_learns_who_has_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = StoreLock::take(&path).unwrap();
        let refused = StoreLock::take(&path).unwrap_err().to_string();
        assert_eq!(refused, format!("store in use by process {}", std::process::id()));
        drop(first);
        StoreLock::take(&path).unwrap();
    }
}
