//! Which programs of the store run: their files are not written meanwhile (ETXTBSY).
//!
//! A copy runs, in a memory file whose name says which inode it is a copy of; the kernel shows it as the process's
//! program. The process that makes a copy leaves a mark with the inode's number, so that only files that were ever run cost a
//! look at the processes.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use crate::descriptors::kernel;
use crate::process;
use crate::store::Client;
use cuesta_format::InodeNumber;
use rustix::fs::{Mode, OFlags};

/// The kernel puts this before a memory file's name, where it tells a process's program.
const MEMORY_FILE: &str = "/memfd:";

/// The name of a copy.
pub fn name(client: &Client, inode: InodeNumber) -> String {
    let store = client.store().0.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    format!("cuesta-program-{store}-{}", inode.0)
}

/// Which file of the store this process runs a copy of.
pub fn own_inode(client: &Client) -> Option<InodeNumber> {
    let program = rustix::fs::readlink("/proc/self/exe", Vec::new()).ok()?;
    let rest = program.to_bytes().strip_prefix(MEMORY_FILE.as_bytes())?;
    let number = rest.strip_prefix(name(client, InodeNumber(0)).strip_suffix('0')?.as_bytes())?;
    let digits = number.split(|byte| *byte == b' ').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok().map(InodeNumber)
}

/// A copy is about to run.
pub fn mark(client: &Client, inode: InodeNumber) {
    let mark = client.stand_in(inode);
    // Without a mark nothing is refused.
    let _ = rustix::fs::mknodat(rustix::fs::CWD, mark, rustix::fs::FileType::RegularFile, 0o600.into(), 0);
}

/// The mark, to see whether it is still there.
pub fn open_mark(client: &Client, inode: InodeNumber) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mark = rustix::fs::open(client.stand_in(inode), flags, Mode::empty()).ok()?;
    kernel::set_aside(mark.as_fd()).ok()
}

/// Whether a process runs a copy of this file.
pub fn is_running(inode: InodeNumber) -> bool {
    let Some(client) = process::attached() else { return false };
    let mark = client.stand_in(inode);
    if rustix::fs::access(&mark, rustix::fs::Access::EXISTS).is_err() {
        return false;
    }
    let program = format!("{MEMORY_FILE}{} ", name(client, inode));
    let runs = |entry: std::fs::DirEntry| {
        let link = std::fs::read_link(entry.path().join("exe"));
        link.is_ok_and(|link| link.as_os_str().as_bytes().starts_with(program.as_bytes()))
    };
    let is_running = std::fs::read_dir("/proc").is_ok_and(|processes| processes.flatten().any(runs));
    if !is_running {
        // The next one finds nothing to look for. A program that is only just starting can be written to.
        let _ = rustix::fs::unlink(&mark);
    }
    is_running
}
