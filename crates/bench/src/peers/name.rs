//! The names of peers.

use clap::ValueEnum;
use serde::Serialize;

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
    /// A store as `OnDisk`, in optimistic mode.
    Optimistic,
    /// A store in memory over a lower tier on a disk. The fast tier is small.
    Spill,
    /// ext4 as `Ext4Disk`, for programs whose fsync does nothing (eatmydata).
    #[value(name = "eatmydata")]
    #[serde(rename = "eatmydata")]
    EatMyData,
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
            PeerName::Optimistic => "optimistic",
            PeerName::Spill => "spill",
            PeerName::EatMyData => "eatmydata",
        }
    }
}
