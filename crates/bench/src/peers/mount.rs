//! FUSE mounts as peers: that of a store, for all programs or for those under `cuesta run`; one of a server that does nothing;
//! and bindfs, which passes everything on to a directory of a tmpfs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::cuesta::Cuesta;
use super::kernel::Kernel;
use crate::error::BenchError;
use crate::figures::measure::Outcome;
use crate::peers::name::PeerName;
use crate::peers::peer::Peer;
use crate::processes::child::{self, Guarded, Role};
use crate::processes::daemon::Daemon;
use crate::works::work::Work;

const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// The line that a server prints when its mount is there.
pub const MOUNTED: &str = "mounted";

/// A store, mounted.
#[derive(Debug)]
pub struct Mount {
    name: PeerName,
    cuesta: Cuesta,
    /// Below it the program's directories lie.
    files: Kernel,
    at: PathBuf,
    is_mounted: bool,
}

impl Mount {
    /// Mounts the store of `cuesta` at `at` when it is needed; programs get there by the kernel.
    pub fn new(cuesta: Cuesta, at: PathBuf) -> Mount {
        Mount::for_peer(PeerName::Mount, cuesta, at)
    }

    /// The same, and they are run under `cuesta run`.
    pub fn for_run(cuesta: Cuesta, at: PathBuf) -> Mount {
        Mount::for_peer(PeerName::OnMount, cuesta, at)
    }

    /// The same as the first, of a store on a disk.
    pub fn on_disk(cuesta: Cuesta, at: PathBuf) -> Mount {
        Mount::for_peer(PeerName::MountDisk, cuesta, at)
    }

    fn for_peer(name: PeerName, cuesta: Cuesta, at: PathBuf) -> Mount {
        Mount { name, cuesta, files: Kernel::new(name, at.clone()), at, is_mounted: false }
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
        self.name
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.files.dir(name)
    }

    fn command(&self, program: &Path) -> Command {
        if self.name != PeerName::OnMount {
            return self.files.command(program);
        }
        let mut run = self.cuesta.tool("run");
        run.arg("--store").arg(self.cuesta.store()).arg("--").arg(program);
        run
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

/// A file system that does nothing, served by a process of ours.
#[derive(Debug)]
pub struct Null {
    files: Kernel,
    _server: Guarded,
}

impl Null {
    /// Mounts it at `at`, served by the program `own_executable`.
    pub fn new(own_executable: &Path, at: PathBuf) -> Result<Null, BenchError> {
        let mut serve = Command::new(own_executable);
        serve.arg("serve-null").arg(&at).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Guarded::spawn(&mut serve, Role::Applications)?;
        child::wait_for_line(&mut server, MOUNTED, COMMAND_LIMIT)?;
        Ok(Null { files: Kernel::new(PeerName::Null, at), _server: server })
    }
}

impl Peer for Null {
    fn name(&self) -> PeerName {
        PeerName::Null
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.files.dir(name)
    }

    fn command(&self, program: &Path) -> Command {
        self.files.command(program)
    }

    fn ensure_ready(&mut self, daemon: Role) -> Result<(), BenchError> {
        self.files.ensure_ready(daemon)
    }

    fn renew(&mut self) -> Result<(), BenchError> {
        self.files.renew()
    }

    fn daemon(&self) -> Option<Daemon> {
        None
    }

    fn recover(&mut self, _: &Work, _: Duration) -> Option<Result<Outcome, BenchError>> {
        None
    }
}
