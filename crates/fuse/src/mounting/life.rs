//! Whether a process serves a mount. The kernel lists a mount whose process died as any other, goes on answering from what it was
//! told before, and lets requests wait for as long as a process has a descriptor of it: SharedFS has one until it has seen that the
//! session is gone. So the mount is asked a question that the kernel keeps no answer to.
//!
//! By then another process may have removed it, and have mounted its own there. So the one that is asked, and removed, is not the mount
//! at the path, but the mount behind a descriptor; while that is open nothing else gets the mount's number.

use super::error::MountError;
use super::helper::unmount_by_helper;
use super::list::{Mounted, mounts};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// What becomes of a dead mount does so in milliseconds; one that lives may wait for a daemon.
const PATIENCE: Duration = Duration::from_secs(10);

/// The fate of a call to a mount.
#[derive(Debug)]
pub enum Life {
    /// It is answered.
    Served,
    /// No process serves the mount, and none ever will.
    Dead(Remains),
    /// It waits: the process is stopped, or waits itself.
    Silent,
    /// The mount is there, under something else that is mounted at the same place.
    Covered,
    /// It is not there any more.
    Gone,
    /// The mount cannot be reached: why.
    OutOfReach(Errno),
}

/// A mount that no process serves.
#[derive(Debug)]
pub struct Remains {
    number: u64,
    at: PathBuf,
    root: OwnedFd,
}

impl Remains {
    /// Takes it out of the tree, whatever is mounted there by now. One that is gone already is no error.
    pub fn take_away(self) -> Result<(), MountError> {
        // The way by the descriptor ends at this mount's root.
        let itself = format!("/proc/self/fd/{}", self.root.as_raw_fd());
        match rustix::mount::unmount(itself, UnmountFlags::DETACH) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            // The helper knows nothing but paths.
            Err(Errno::PERM) if found_at(&self.at).is_ok_and(|(number, _)| number == self.number) => {
                unmount_by_helper(&self.at, true)
            }
            Err(Errno::PERM) => Ok(()),
            Err(errno) => Err(MountError::Refused(errno)),
        }
    }
}

/// Looks what has become of a mount, which takes some seconds if it is [`Life::Silent`].
#[must_use]
pub fn life(mounted: &Mounted) -> Life {
    let (answers, answered) = channel();
    let asked = mounted.clone();
    let ask = move || {
        // The asking thread may have lost patience.
        let _ = answers.send(ask(&asked));
    };
    let asking = std::thread::Builder::new().name("asking".into()).spawn(ask);
    asking.ok().and_then(|_| answered.recv_timeout(PATIENCE).ok()).unwrap_or(Life::Silent)
}

fn ask(mounted: &Mounted) -> Life {
    let is_listed = || mounts().is_ok_and(|mounts| mounts.contains(mounted));
    match found_at(&mounted.at) {
        Ok((number, root)) if number == mounted.number => match rustix::fs::fstatvfs(&root) {
            Err(Errno::NOTCONN | Errno::CONNABORTED) => {
                Life::Dead(Remains { number, at: mounted.at.clone(), root })
            }
            // An answer that says that something is wrong is one.
            _ => Life::Served,
        },
        _ if !is_listed() => Life::Gone,
        Ok(_) => Life::Covered,
        Err(errno) => Life::OutOfReach(errno),
    }
}

/// The root of what is mounted at a place, and the mount's number. The mount itself is not asked for it.
fn found_at(at: &Path) -> Result<(u64, OwnedFd), Errno> {
    let root = rustix::fs::open(at, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let known = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", root.as_raw_fd()))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let number = known.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    Ok((number.ok_or(Errno::IO)?, root))
}
