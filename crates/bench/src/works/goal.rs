//! Policy: the goal of a row of the table. Which row has which goal is in the other files.

use crate::peers::name::PeerName;

/// The goal of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At least this many times the value on tmpfs.
    TimesTmpfs(f64),
    /// Less than this many times the value on tmpfs.
    BelowTimesTmpfs(f64),
    /// Less than this much more than on tmpfs, in the figure's unit.
    AddedBelow(f64),
    /// Less than this, in the figure's unit.
    Below(f64),
    /// At least this, in the figure's unit.
    Above(f64),
    /// A peer's value is at most so many times another one's,
    AtMost {
        /// whose,
        peer: PeerName,
        /// times
        times: f64,
        /// the value of this one.
        of: PeerName,
    },
    /// or at least so many times.
    AtLeast {
        /// Whose,
        peer: PeerName,
        /// times
        times: f64,
        /// the value of this one.
        of: PeerName,
    },
    /// A peer's value is less than so much more than another one's.
    MoreThanBelow {
        /// Whose,
        peer: PeerName,
        /// so much more, in the figure's unit,
        limit: f64,
        /// than the value of this one.
        of: PeerName,
    },
    /// A peer's value is at least so much, in the figure's unit.
    Least {
        /// Whose,
        peer: PeerName,
        /// so much.
        least: f64,
    },
    /// Reported, not judged.
    Reported,
}

impl Goal {
    /// Whether its verdict needs the value of that peer.
    pub fn is_judged_by(&self, peer: PeerName) -> bool {
        match self {
            Goal::TimesTmpfs(_) | Goal::BelowTimesTmpfs(_) | Goal::AddedBelow(_) => {
                matches!(peer, PeerName::Cuesta | PeerName::Tmpfs)
            }
            Goal::Below(_) | Goal::Above(_) => peer == PeerName::Cuesta,
            _ => self.is_about(peer),
        }
    }

    /// Whether it is one of that peer: as the one judged, or as the one it is judged by.
    pub fn is_about(&self, peer: PeerName) -> bool {
        match *self {
            Goal::AtMost { peer: judged, of, .. }
            | Goal::AtLeast { peer: judged, of, .. }
            | Goal::MoreThanBelow { peer: judged, of, .. } => judged == peer || of == peer,
            Goal::Least { peer: judged, .. } => judged == peer,
            _ => false,
        }
    }
}

/// An append with its fsync, to a bare copy of its bytes past the caches and a fence,
pub const NEAR_A_COPY: Goal = Goal::Below(3.0);
/// and a read, to a bare copy of its bytes.
pub const NEAR_MEMCPY: Goal = Goal::Below(2.0);
/// 999 of 1,000 operations take less, while what they logged is digested beside them.
pub const TAIL: Goal = Goal::Below(100.0);
/// The digest's rate of fresh data, in MB/s,
pub const DIGESTED: Goal = Goal::Above(1000.0);
/// and of small operations of which little is left, a second.
pub const FOLDED: Goal = Goal::Above(300_000.0);

/// A write may not wait longer than this.
pub const STALL: Goal = Goal::Below(50.0);

/// Processes that have nothing to do with each other get as much more done as on tmpfs, within what rounds differ.
pub const SCALE: Goal = Goal::TimesTmpfs(0.9);

/// Nobody asks for anything: no time is taken, but for what a clock that is read can see,
pub const NO_TIME: Goal = Goal::Below(0.1);
/// and nothing wakes up.
pub const NO_WAKE_UPS: Goal = Goal::Below(1.0);
/// The daemon's memory for a million files and a thousand sessions.
pub const MEMORY: Goal = Goal::Below(256.0);

/// The cost of a day's work.
pub const JOB: Goal = Goal::BelowTimesTmpfs(1.1);

/// Cached files of a mount cost as much as those of a file system of the kernel's own, but for FUSE's part in the kernel.
pub const KEPT: Goal = Goal::AtMost { peer: PeerName::Mount, times: 1.5, of: PeerName::Ext4Ram };
/// A call to the door costs little beyond the round trip.
pub const CALL: Goal = Goal::AtMost { peer: PeerName::Mount, times: 1.2, of: PeerName::Null };
/// A tree by the mount, compared with bindfs, which passes on to a file system of the kernel's.
pub const TREE: Goal = Goal::AtMost { peer: PeerName::Mount, times: 1.5, of: PeerName::Bindfs };
/// To a program under `cuesta run` it is one whether the store is mounted: times,
pub const MOUNTED_TIME: Goal = Goal::AtMost { peer: PeerName::OnMount, times: 1.1, of: PeerName::Cuesta };
/// and rates.
pub const MOUNTED_RATE: Goal = Goal::AtLeast { peer: PeerName::OnMount, times: 0.9, of: PeerName::Cuesta };

/// A tree of files on a disk takes no longer than on the kernel's own.
pub const DISK_TREE: Goal = Goal::AtMost { peer: PeerName::OnDisk, times: 1.0, of: PeerName::Ext4Disk };
/// What waits for a disk is as much more done as there.
pub const fn disk(times: f64) -> Goal {
    Goal::AtLeast { peer: PeerName::OnDisk, times, of: PeerName::Ext4Disk }
}

/// In optimistic mode no call waits for the disk: as much is done as on tmpfs, within what rounds differ,
pub const OPTIMISTIC: Goal = Goal::AtLeast { peer: PeerName::Optimistic, times: 0.95, of: PeerName::Tmpfs };
/// and as much as where fsync does nothing.
pub const EAT_MY_DATA: Goal =
    Goal::AtLeast { peer: PeerName::Optimistic, times: 1.0, of: PeerName::EatMyData };

/// A job of several programs at once takes no longer than on tmpfs, within what rounds differ,
pub const SHARED_JOB: Goal = Goal::AtMost { peer: PeerName::Cuesta, times: 1.05, of: PeerName::Tmpfs };
/// and git, which makes its files and renames them, no longer.
pub const SHARED_GIT: Goal = Goal::AtMost { peer: PeerName::Cuesta, times: 1.0, of: PeerName::Tmpfs };
/// Where processes share, 99 of 100 operations take little longer than there,
pub const SHARED_TAIL: Goal = Goal::AtMost { peer: PeerName::Cuesta, times: 2.0, of: PeerName::Tmpfs };
/// and on a disk little longer than on the kernel's own.
pub const SHARED_TAIL_ON_DISK: Goal =
    Goal::AtMost { peer: PeerName::OnDisk, times: 2.0, of: PeerName::Ext4Disk };
/// A call on a disk waits no longer than in memory, beyond what the disk itself makes one wait.
pub const WAIT_ON_DISK: Goal =
    Goal::MoreThanBelow { peer: PeerName::OnDisk, limit: 50.0, of: PeerName::Ext4Disk };
/// The mount of a store on a disk, to the kernel's own file system there.
pub const fn mount_on_disk(times: f64) -> Goal {
    Goal::AtLeast { peer: PeerName::MountDisk, times, of: PeerName::Ext4Disk }
}

/// A large file gets to memory faster than on tmpfs,
pub const BULK: Goal = Goal::TimesTmpfs(1.3);
/// to a disk nearly as fast as to the kernel's cache,
pub const BULK_ON_DISK: Goal = disk(0.7);
/// and with the wait for the disk as fast as there.
pub const BULK_SYNCED: Goal = disk(0.95);
/// Program and daemon together take little more of the processor than one copy.
pub const ONE_COPY: Goal = Goal::Below(1.3);

/// The first appends of a process wait for nothing that is made ready later.
pub const FIRST_WAIT: Goal = Goal::Below(2.0);

/// A commit waits little longer beside a table that its own process writes,
pub const COMMIT_BESIDE: Goal =
    Goal::MoreThanBelow { peer: PeerName::OnDisk, limit: 5_000.0, of: PeerName::Ext4Disk };
/// and no longer beside one that another process writes.
pub const COMMIT_APART: Goal = Goal::AtMost { peer: PeerName::OnDisk, times: 1.0, of: PeerName::Ext4Disk };

/// A small fast tier over a disk does as much as memory alone,
pub const SPILL: Goal = Goal::AtLeast { peer: PeerName::Spill, times: 0.95, of: PeerName::Cuesta };
/// and much more than a disk that keeps each key through a loss of power.
pub const SPILL_TO_DISK: Goal = Goal::AtLeast { peer: PeerName::Spill, times: 30.0, of: PeerName::Ext4Disk };
/// Ziggurat's predictors were right so often, of 100 (§6).
pub const PREDICTED: Goal = Goal::Least { peer: PeerName::Spill, least: 97.0 };
