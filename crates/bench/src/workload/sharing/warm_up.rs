//! Operations before the measured ones.

use crate::figures::measure::Outcome;

/// Operations of each member before anything is measured.
pub(super) const WARM_UP: u64 = 32;

/// How many operations a member did, those before the measured ones included.
pub(super) fn operations(outcome: &Outcome) -> u64 {
    WARM_UP + outcome.latency.iter().map(|&(_, times)| times).sum::<u64>()
}
