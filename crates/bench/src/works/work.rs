//! A work: one program that is run on every peer, and the lines it gives in the table.

use super::goal::Goal;
use super::program::Program;
use crate::figures::measure::Figure;
use crate::peers::name::PeerName;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The title of the line.
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

impl Work {
    /// Whether it runs only on the peers that its goals name: it is about tiers, or so large that no other peer is of interest.
    fn is_for_goals_only(&self) -> bool {
        let is_about_one =
            |row: &Row| matches!(row.goal, Goal::Least { .. } | Goal::AtLeast { peer: PeerName::Spill, .. });
        self.program.is_of_tiers() || self.rows.iter().any(is_about_one)
    }

    /// Whether the work is run on that peer. A mount runs the works that have a goal on mounts, and those named on the command line.
    /// A peer without contents runs no work that reads them.
    pub fn concerns(&self, peer: PeerName, is_named: bool) -> bool {
        match peer {
            _ if self.is_for_goals_only() => self.rows.iter().any(|row| row.goal.is_judged_by(peer)),
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
            | PeerName::MountDisk
            | PeerName::Optimistic
            | PeerName::Spill
            | PeerName::EatMyData => is_named || self.rows.iter().any(|row| row.goal.is_about(peer)),
        }
    }
}
