//! Findings of a check, and whether it may change the store.

use super::problem::Problem;

/// What became of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Worth knowing; the store is sound.
    Noted,
    /// It was repaired.
    Repaired,
    /// It can be repaired, and was not asked to be.
    Repairable,
    /// There is no safe repair.
    Damaged,
}

/// A problem and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The problem.
    pub problem: Problem,
    /// What became of it.
    pub verdict: Verdict,
}

/// The findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// In the order they were found.
    pub findings: Vec<Finding>,
    /// Entries that were still in logs and are digested now.
    pub recovered_entries: u64,
    /// Inodes looked at.
    pub inodes: u64,
    /// Names looked at.
    pub names: u64,
    /// Blocks in use.
    pub blocks: u64,
}

impl CheckReport {
    /// The worst that was found; `None` if there was nothing.
    #[must_use]
    pub fn worst(&self) -> Option<Verdict> {
        self.findings.iter().map(|finding| finding.verdict).max()
    }

    /// Nothing but notes.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.worst().is_none_or(|worst| worst == Verdict::Noted)
    }
}

/// Whether the checker may change the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It only looks, at what was digested; logs stay as they are.
    Report,
    /// It digests what logs hold, then repairs what has a safe repair.
    Repair,
    /// The same, but what keeps the store closed is dropped first: the metadata's journal from its first damaged record on.
    /// Files whose content is missing are given up, too. No daemon opens the store until what was lost was [told](super::told).
    RepairWithLoss,
}
