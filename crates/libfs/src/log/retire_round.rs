//! How far the present round of retiring has come. This is a leaf; [`crate::log::retire`] drives it.

use cuesta_format::wire::Report;
use cuesta_format::{InodeNumber, LogPosition};

/// The state of the present round.
#[derive(Debug, Default)]
pub(crate) struct RetireRound {
    /// Everything below this position is retired.
    pub(super) at: LogPosition,
    /// The report's end: the round retires up to here, once all of the report is applied.
    pub(super) target: LogPosition,
    /// The page of the report that is being applied, and how many of its items are applied.
    pub(super) page: Option<(Report, usize)>,
    /// Items of the earlier pages.
    pub(super) learnt: u64,
    /// Inodes of the report: one for each run of items.
    pub(super) placed: Vec<InodeNumber>,
}

impl RetireRound {
    pub(crate) fn new(at: LogPosition) -> RetireRound {
        RetireRound { at, target: at, ..RetireRound::default() }
    }

    pub(crate) fn restart(&mut self, at: LogPosition) {
        *self = RetireRound::new(at);
    }

    pub(super) fn in_round(&self) -> bool {
        self.page.is_some() || self.target > self.at
    }
}
