//! Policy: the works, their sizes, and the goal each one has to meet.
//!
//! Everything that could be argued about is here, in a table for each subject; nothing opens a file. A work is one program run on
//! every peer; a row is one of its figures in the table.
//!
//! Goals on the rate of small synchronous writes are judged on *bursts* that fit the log, each after it had time to drain; the
//! sustained rate, where the digest is the limit, has rows of its own, and so has the longest stall.

mod calls;
mod daemon;
mod limits;
mod program;
mod programs;
mod sharing;
mod writes;

use clap::ValueEnum;

use crate::curves;
use crate::goal::Goal;
use crate::measure::Figure;
use crate::peers::PeerName;

pub use program::Program;

/// Bytes in a KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What the line is called.
    pub title: &'static str,
    /// Which figure it shows.
    pub figure: Figure,
    /// What Cuesta has to reach.
    pub goal: Goal,
}

/// One work.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Its name on the command line.
    pub name: &'static str,
    /// The program.
    pub program: Program,
    /// How long its measured phases go on, in seconds, in a full run.
    pub seconds: f64,
    /// The same in a quick run.
    pub seconds_quick: f64,
    /// Rounds in a full run.
    pub rounds: u32,
    /// The lines it gives.
    pub rows: &'static [Row],
}

/// Bursts of one run.
pub const BURSTS: u32 = 5;

/// Rounds of every work in a quick run.
pub const ROUNDS_QUICK: u32 = 3;

/// A line of the table.
pub const fn row(title: &'static str, figure: Figure, goal: Goal) -> Row {
    Row { title, figure, goal }
}

/// What works are about, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// Small synchronous writes, databases, files put in place, large writes.
    Writes,
    /// Single calls.
    Calls,
    /// Programs that are started, and jobs of many.
    Programs,
    /// What the daemon needs after a crash and at rest.
    Daemon,
    /// What the hardware does alone, and what a program sees of the digest.
    Limits,
    /// Several processes that share files and directories.
    Sharing,
}

impl Subject {
    /// Its works, in the order of the table.
    pub fn works(self) -> &'static [Work] {
        match self {
            Subject::Writes => writes::WORKS,
            Subject::Calls => calls::WORKS,
            Subject::Programs => programs::WORKS,
            Subject::Daemon => daemon::WORKS,
            Subject::Limits => limits::WORKS,
            Subject::Sharing => sharing::WORKS,
        }
    }
}

/// Every work, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Work> {
    Subject::value_variants().iter().flat_map(|subject| subject.works())
}

/// The work of that name, here or of a curve.
pub fn find(name: &str) -> Option<&'static Work> {
    all().find(|work| work.name == name).or_else(|| curves::table::find(name))
}

impl Work {
    /// Whether the work is run on that peer. A mount runs the works that have a goal on mounts, and those named on the command line.
    /// A peer without contents runs no work that reads them.
    pub fn concerns(&self, peer: PeerName, is_named: bool) -> bool {
        match peer {
            PeerName::Cuesta | PeerName::Tmpfs => true,
            PeerName::Ext4Ram | PeerName::XfsRam | PeerName::XfsDisk if self.program.is_of_sharing() => {
                is_named
            }
            PeerName::Ext4Ram | PeerName::Ext4Disk | PeerName::XfsRam | PeerName::XfsDisk => !matches!(
                self.program,
                Program::Foreign(_)
                    | Program::Start(_)
                    | Program::Launch { .. }
                    | Program::Limit(_)
                    | Program::Mixed(_)
                    | Program::Digest(_)
                    | Program::ServedRename(_)
            ),
            PeerName::Null => matches!(self.program, Program::Calls(_)),
            PeerName::Mount
            | PeerName::Bindfs
            | PeerName::OnMount
            | PeerName::OnDisk
            | PeerName::MountDisk => is_named || self.rows.iter().any(|row| row.goal.is_about(peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_found() {
        let names: BTreeSet<_> = all().map(|work| work.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(all().all(|work| find(work.name).is_some()));
        assert!(find("nothing").is_none());
    }

    #[test]
    fn mounts_do_what_has_goals_on_them_or_is_asked_for() {
        let concerned = |name: &str, peer, is_named| find(name).unwrap().concerns(peer, is_named);
        assert!(concerned("calls", PeerName::Null, false) && concerned("untar", PeerName::Bindfs, false));
        assert!(
            !concerned("stream-1m", PeerName::Mount, false) && concerned("stream-1m", PeerName::Mount, true)
        );
        assert!(!concerned("untar", PeerName::Null, true), "it keeps no contents");
        assert!(
            !concerned("mail-4", PeerName::Ext4Ram, false) && concerned("mail-4", PeerName::Ext4Ram, true)
        );
    }

    #[test]
    fn every_work_has_rounds_and_rows() {
        assert!(all().all(|work| work.rounds > 0 && !work.rows.is_empty()));
    }
}
