//! Whether a file is open for writing: then it is not executed.
//!
//! A process that was killed leaves its slots as they were until its session has ended. Its parent may want to
//! execute the file it wrote. So only a writer that lives counts.

use crate::SharedFs;
use cuesta_format::InodeNumber;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

impl SharedFs {
    /// Whether a process has it open for writing. Slots are looked at before descriptors, as they are given up
    /// after them.
    pub(super) fn is_written(&self, inode: InodeNumber) -> bool {
        let core = self.core.lock();
        let sessions: Vec<_> =
            core.sessions.values().map(|found| (found.pid, found.control.clone())).collect();
        drop(core);
        sessions.iter().any(|(process, control)| control.writes(inode) && is_alive(*process))
            || self.references.have_writer(inode)
    }
}

fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    // Of what cannot be looked at nothing is known to be dead.
    let Some(process) = process else { return true };
    let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return false };
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    !matches!(rustix::event::poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
}
