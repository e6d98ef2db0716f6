//! Mechanism: tells the door how its mount is, each time the kernel's list of mounts changes. A remount is the kernel's, and tells
//! the process that serves the mount nothing.

use super::list::mount_lines;
use crate::mounting::options::Options;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::thread::Builder;

/// The list whose changes wake.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Calls `tell` with the options of the mount at `at`, and again after each change until the mount is gone from the tree, or `tell` answers
/// that it no longer listens.
pub(crate) fn watch(at: PathBuf, tell: impl Fn(&Options) -> bool + Send + 'static) -> io::Result<()> {
    // Opened first, so that no change lies between the first look and the first wait.
    let list = File::open(MOUNTS)?;
    if let Some(line) = mount_lines(&at)?.last() {
        tell(&Options::of_mounted(line));
    }
    let wait = move || {
        loop {
            let mut changed = [PollFd::new(&list, PollFlags::PRI)];
            if poll(&mut changed, None).is_err_and(|errno| errno != rustix::io::Errno::INTR) {
                return;
            }
            let Ok(lines) = mount_lines(&at) else { return };
            let listens = lines.last().is_some_and(|line| tell(&Options::of_mounted(line)));
            if !listens {
                return;
            }
        }
    };
    Builder::new().name("options".into()).spawn(wait).map(drop)
}
