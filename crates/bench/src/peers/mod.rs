//! The file systems a work is run on.

pub mod cuesta;
pub mod kernel;
pub mod mount;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use crate::child::Role;
use crate::daemon::Daemon;
use crate::error::BenchError;
use crate::measure::Outcome;
use crate::user::User;
use crate::works::Work;

/// Where, in a peer, that of another user lies.
const OF_USER: &str = "of-user";

/// The name of a peer, in the order of the table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PeerName {
    /// Cuesta on the medium `memory`.
    Cuesta,
    /// A tmpfs.
    Tmpfs,
    /// ext4 with a journal on a loop device in memory.
    Ext4Ram,
    /// XFS, which has a journal, on a loop device in memory.
    XfsRam,
    /// ext4 with a journal on a loop device on the disk.
    Ext4Disk,
    /// XFS on a loop device on the disk.
    XfsDisk,
    /// The mount of a store on the medium `memory`.
    Mount,
    /// A FUSE file system that does nothing.
    Null,
    /// bindfs, which passes everything on, by FUSE, to a tmpfs.
    Bindfs,
    /// The mount of a store, for programs under `cuesta run`.
    OnMount,
    /// Cuesta on the medium `block`, in an ext4 as `Ext4Disk`.
    OnDisk,
    /// The mount of a store as `OnDisk`.
    MountDisk,
}

impl PeerName {
    /// The name on the command line and in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            PeerName::Cuesta => "cuesta",
            PeerName::Tmpfs => "tmpfs",
            PeerName::Ext4Ram => "ext4-ram",
            PeerName::XfsRam => "xfs-ram",
            PeerName::Ext4Disk => "ext4-disk",
            PeerName::XfsDisk => "xfs-disk",
            PeerName::Mount => "mount",
            PeerName::Null => "null",
            PeerName::Bindfs => "bindfs",
            PeerName::OnMount => "on-mount",
            PeerName::OnDisk => "on-disk",
            PeerName::MountDisk => "mount-disk",
        }
    }
}

/// A file system that is set up; dropping it takes it down.
pub trait Peer {
    /// Which one.
    fn name(&self) -> PeerName;

    /// Where a program run by `command` finds the directory `name`.
    fn dir(&self, name: &str) -> PathBuf;

    /// Where it lies, if that is on a disk.
    fn on_disk(&self) -> Option<&Path> {
        None
    }

    /// The command that runs `program` so that it sees this peer.
    fn command(&self, program: &Path) -> Command;

    /// Makes sure the peer answers, and that what serves it has the CPUs of `daemon`; called before each run.
    fn ensure_ready(&mut self, daemon: Role) -> Result<(), BenchError>;

    /// Makes the peer as new; called after a run that failed.
    fn renew(&mut self) -> Result<(), BenchError>;

    /// The same for programs of `user`: a file system that belongs to that user, beside this one. `None` where there is none.
    fn of_user(&self, _user: User) -> Option<Result<Box<dyn Peer>, BenchError>> {
        None
    }

    /// What serves it, if that is a process.
    fn daemon(&self) -> Option<Daemon>;

    /// Lets the program of `work` write for `filling`, kills it and whatever serves it, and measures the way
    /// back; `None` where there is nothing to recover.
    fn recover(&mut self, work: &Work, filling: Duration) -> Option<Result<Outcome, BenchError>>;
}
