//! The findings of a replay.

use super::simulation::player::Reads;
use serde::Serialize;

/// Everything that a replay found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this form of JSON.
    pub schema: u32,
    /// Of traces that the bench makes, and of the sampling.
    pub seed: u64,
    pub piece_bytes: u64,
    /// Policies see one read in so many.
    pub sample: u32,
    pub mb_per_second: f64,
    pub cold_ms: u64,
    pub traces: Vec<TraceReport>,
}

/// The findings about a trace.
#[derive(Debug, Serialize)]
pub struct TraceReport {
    pub name: String,
    pub reads: Reads,
    pub writes: Reads,
    pub seconds: f64,
    /// Reads before are not counted below.
    pub counted_from_seconds: f64,
    /// The most content that is there at once, in whole pieces.
    pub footprint_bytes: u64,
    pub tiers: Vec<TierReport>,
}

/// The findings with a fast tier of one size.
#[derive(Debug, Serialize)]
pub struct TierReport {
    /// Percent of the footprint; `null`: the size was given.
    pub share: Option<f64>,
    pub fast_bytes: u64,
    /// Reads that are counted: of each piece that a request lies in.
    pub reads: u64,
    /// Misses of Belady's optimum with bypass, the lower bound, and without,
    pub optimum_misses: u64,
    pub optimum_without_bypass_misses: u64,
    /// of the best placement that does not change, and of the order by time of last change.
    pub fixed_misses: u64,
    pub mtime_misses: u64,
    /// Bytes that would move between the best placements of each minute.
    pub each_minute_bytes: u64,
    pub policies: Vec<PolicyReport>,
}

/// How a policy did.
#[derive(Debug, Serialize)]
pub struct PolicyReport {
    pub policy: &'static str,
    pub hits: Reads,
    pub misses: Reads,
    pub down_bytes: u64,
    pub up_bytes: u64,
    /// Copies that were dropped free.
    pub dropped_bytes: u64,
    /// Writes that found the fast tier full.
    pub written_through_bytes: u64,
    /// Bytes that lie elsewhere at the end than where they were written.
    pub elsewhere_bytes: u64,
    /// What goals are set on.
    pub goals: Vec<GoalReport>,
}

/// A value that has a goal.
#[derive(Debug, Serialize)]
pub struct GoalReport {
    pub goal: Goal,
    pub value: f64,
    /// The value is to be no more.
    pub most: f64,
    pub is_met: bool,
}

/// The goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Misses to those of the best placement that does not change.
    ToFixed,
    /// Misses to those of the order by time of last change.
    ToMtime,
    /// The part of the hits of hot files that a scan costs.
    LostByScan,
    /// Bytes that moved, to those that lie elsewhere at the end and those of the best placements of each minute.
    ToBytesDue,
}

impl Goal {
    /// The most that the value may be.
    pub fn most(self) -> f64 {
        match self {
            Goal::ToFixed => 1.1,
            Goal::ToMtime => 0.8,
            Goal::LostByScan => 0.05,
            Goal::ToBytesDue => 1.2,
        }
    }

    /// A value of this goal.
    pub fn of(self, value: f64) -> GoalReport {
        GoalReport { goal: self, value, most: self.most(), is_met: value <= self.most() }
    }
}

impl PolicyReport {
    /// The value of a goal, if it is set here.
    pub fn value_of(&self, goal: Goal) -> Option<&GoalReport> {
        self.goals.iter().find(|one| one.goal == goal)
    }
}
