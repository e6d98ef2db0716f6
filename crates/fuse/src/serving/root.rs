//! The root as the kernel knows it when a mount begins: a directory in which no process may do anything.
//!
//! It asks for attributes before it judges access, but does not take the answer if it was told meanwhile that its attributes
//! hold no more; then it judges by those it had. Of any other inode these were true a moment ago. Of the root they are
//! none, and a process that comes is told EACCES. So the root is looked at until the kernel knows it, before any other process comes.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use std::path::Path;

/// Far more notices than can meet so many answers one after the other.
const LOOKS_MAX: usize = 1000;

/// Has the kernel know the root of what is mounted at `at`, as far as it lets itself be told.
pub(crate) fn make_known(at: &Path) -> Result<(), Errno> {
    let mode = |flags| statx(CWD, at, flags, StatxFlags::MODE).map(|found| found.stx_mode);
    for _ in 0..LOOKS_MAX {
        // One asks, the other shows what came of it.
        if mode(AtFlags::STATX_FORCE_SYNC)? == mode(AtFlags::STATX_DONT_SYNC)? {
            break;
        }
    }
    Ok(())
}
