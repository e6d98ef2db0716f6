//! The kernel's own file systems: a directory, and programs run as they are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Peer, PeerName};
use crate::child::Role;
use crate::daemon::Daemon;
use crate::error::{BenchError, Context};
use crate::measure::Outcome;
use crate::works::Work;

/// A mounted file system of the kernel.
#[derive(Debug)]
pub struct Kernel {
    name: PeerName,
    at: PathBuf,
}

impl Kernel {
    /// The file system mounted `at`.
    pub fn new(name: PeerName, at: PathBuf) -> Self {
        Kernel { name, at }
    }
}

impl Peer for Kernel {
    fn name(&self) -> PeerName {
        self.name
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    fn on_disk(&self) -> Option<&Path> {
        matches!(self.name, PeerName::Ext4Disk | PeerName::XfsDisk).then_some(&self.at)
    }

    fn command(&self, program: &Path) -> Command {
        Command::new(program)
    }

    fn ensure_ready(&mut self, _daemon: Role) -> Result<(), BenchError> {
        Ok(())
    }

    fn renew(&mut self) -> Result<(), BenchError> {
        for entry in std::fs::read_dir(&self.at).context("listing what a failed work left")? {
            let path = entry.context("listing what a failed work left")?.path();
            if path.file_name().is_some_and(|name| name != "lost+found") {
                std::fs::remove_dir_all(&path).context("removing what a failed work left")?;
            }
        }
        Ok(())
    }

    fn daemon(&self) -> Option<Daemon> {
        None
    }

    fn recover(&mut self, _: &Work, _: Duration) -> Option<Result<Outcome, BenchError>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewing_empties_the_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let mut peer = Kernel::new(PeerName::Tmpfs, dir.path().to_owned());
        std::fs::create_dir_all(peer.dir("work").join("deep")).unwrap();
        peer.renew().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
