//! A lock file, and setting one lock on it.

use super::range::Range;
use super::shares::Share;
use crate::kernel::abi::{LOCK_FLOCK, LockIn};
use cuesta_format::control::USER_LOCK_LAST;
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::io::Errno;

/// Where what programs can lock ends, for the kernel.
pub(in crate::door) const END_OF_ALL: u64 = i64::MAX as u64;

/// The description that a lock is on.
#[derive(Debug)]
pub(in crate::door) struct LockFile {
    file: OwnedFd,
    /// Its share, which counts for the user it was taken for.
    _share: Option<Share>,
}

impl LockFile {
    /// A lock file that counts for a user.
    pub(in crate::door) fn counted(file: OwnedFd, share: Share) -> LockFile {
        LockFile { file, _share: Some(share) }
    }
}

impl std::ops::Deref for LockFile {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.file
    }
}

impl From<OwnedFd> for LockFile {
    fn from(file: OwnedFd) -> LockFile {
        LockFile { file, _share: None }
    }
}

/// One lock as it is asked for.
pub(in crate::door) enum Wanted {
    Whole { operation: i32 },
    Range(libc::flock),
}

impl Wanted {
    pub(in crate::door) fn of(asked: &LockIn) -> Wanted {
        if asked.flags & LOCK_FLOCK != 0 {
            let operation = match asked.kind as i32 {
                libc::F_RDLCK => libc::LOCK_SH,
                libc::F_WRLCK => libc::LOCK_EX,
                _ => libc::LOCK_UN,
            };
            return Wanted::Whole { operation };
        }
        let [first, last] = [asked.start, asked.end].map(|byte| byte.min(USER_LOCK_LAST) as i64);
        Wanted::Range(libc::flock {
            l_type: asked.kind as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: first,
            l_len: last - first + 1,
            l_pid: 0,
        })
    }

    /// The bytes a record lock is on.
    pub(in crate::door) fn range(&self) -> Option<Range> {
        let Wanted::Range(range) = self else { return None };
        let first = range.l_start as u64;
        let last = first + (range.l_len as u64 - 1);
        Some(Range { first, last, is_exclusive: i32::from(range.l_type) == libc::F_WRLCK })
    }

    pub(in crate::door) fn set(&self, file: &OwnedFd, waits: bool) -> Result<(), Errno> {
        let file = file.as_raw_fd();
        // SAFETY: the descriptor is open while it is borrowed; the kernel reads the one structure, which outlives the call.
        let done = unsafe {
            match self {
                Wanted::Whole { operation } => {
                    libc::flock(file, operation | if waits { 0 } else { libc::LOCK_NB })
                }
                Wanted::Range(range) => {
                    let command = if waits { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
                    libc::fcntl(file, command, std::ptr::from_ref(range))
                }
            }
        };
        if done == 0 { Ok(()) } else { Err(last_error()) }
    }
}

/// The error of the last call of the C library.
pub(in crate::door) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
