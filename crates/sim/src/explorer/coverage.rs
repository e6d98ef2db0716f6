//! Counts of an exploration.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Counts of the states that were tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Fences that made something durable, and what the kernel wrote.
    pub persist_points: u64,
    /// Those of them that were crashed at.
    pub persist_points_crashed: u64,
    /// Steps of making, resizing and removing a file that were crashed behind.
    pub file_steps: u64,
    /// States judged.
    pub states: u64,
    /// States that were different within a run.
    pub states_distinct: u64,
    /// Those of them that were recovered; of the others it was known what recovery comes to.
    pub states_recovered: u64,
}

impl Coverage {
    /// Whether every persist point was crashed at.
    pub fn complete(&self) -> bool {
        self.persist_points == self.persist_points_crashed
    }

    /// Counts another run in.
    pub fn add(&mut self, other: Coverage) {
        self.persist_points += other.persist_points;
        self.persist_points_crashed += other.persist_points_crashed;
        self.file_steps += other.file_steps;
        self.states += other.states;
        self.states_distinct += other.states_distinct;
        self.states_recovered += other.states_recovered;
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Coverage { persist_points, persist_points_crashed, file_steps, states, .. } = self;
        let Coverage { states_distinct, states_recovered, .. } = self;
        write!(
            formatter,
            "{persist_points_crashed} of {persist_points} persist points and {file_steps} steps of files crashed, {states} states, {states_distinct} distinct, {states_recovered} recovered"
        )
    }
}
