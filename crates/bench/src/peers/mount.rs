//! FUSE mounts as peers: that of a store, and bindfs, which passes everything on to a directory of a tmpfs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cuesta::Cuesta;
use super::kernel::Kernel;
use super::{Peer, PeerName};
use crate::child::{self, Role};
use crate::daemon::Daemon;
use crate::error::BenchError;
use crate::measure::Outcome;
use crate::works::Work;

const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// A store, mounted.
#[derive(Debug)]
pub struct Mount {
    cuesta: Cuesta,
    /// Below it the program's directories lie.
    files: Kernel,
    at: PathBuf,
    is_mounted: bool,
}

impl Mount {
    /// Mounts the store of `cuesta` at `at` when it is needed.
    pub fn new(cuesta: Cuesta, at: PathBuf) -> Mount {
        Mount { cuesta, files: Kernel::new(PeerName::Mount, at.clone()), at, is_mounted: false }
    }

    fn unmount(&mut self) {
        if std::mem::take(&mut self.is_mounted) {
            let mut unmount = self.cuesta.tool("unmount");
            let _ = child::run(unmount.arg("--lazy").arg(&self.at), "cuesta unmount", COMMAND_LIMIT);
        }
    }
}

impl Peer for Mount {
    fn name(&self) -> PeerName {
        PeerName::Mount
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.files.dir(name)
    }

    fn command(&self, program: &Path) -> Command {
        self.files.command(program)
    }

    fn ensure_ready(&mut self, daemon: Role) -> Result<(), BenchError> {
        self.cuesta.ensure_ready(daemon)?;
        if !self.is_mounted {
            let mut mount = self.cuesta.tool("mount");
            mount.arg(self.cuesta.store()).arg(&self.at);
            // It has all processors: it works on the one that waits for it.
            child::run_as(Role::Applications, &mut mount, "cuesta mount", COMMAND_LIMIT)?;
            self.is_mounted = true;
        }
        Ok(())
    }

    fn renew(&mut self) -> Result<(), BenchError> {
        self.unmount();
        self.cuesta.renew()
    }

    fn daemon(&self) -> Option<Daemon> {
        self.cuesta.daemon()
    }

    fn recover(&mut self, _: &Work, _: Duration) -> Option<Result<Outcome, BenchError>> {
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.unmount();
    }
}

/// Mounts bindfs at `at`, for what lies in `below`. It ends with the mount.
pub fn bindfs(below: &Path, at: PathBuf) -> Result<Kernel, BenchError> {
    let mut bindfs = Command::new("bindfs");
    bindfs.args(["--multithreaded"]).arg(below).arg(&at);
    child::run_as(Role::Applications, &mut bindfs, "bindfs", COMMAND_LIMIT)?;
    Ok(Kernel::new(PeerName::Bindfs, at))
}
