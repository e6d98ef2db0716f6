//! How the last fences of this session ended. This is a leaf; [`crate::leases::resync`] fills it.

use cuesta_format::LogPosition;
use std::collections::VecDeque;

/// Outcomes kept for operations that have not asked yet.
pub(super) const OUTCOMES_MAX: usize = 4096;

/// How earlier fences of this session ended.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// The generation that operations ran under, and up to where SharedFS accepted their entries.
    pub(super) outcomes: VecDeque<(u64, LogPosition)>,
    /// The next daemon took the session up, and has not yet said what it accepted. Every lease is gone.
    pub(super) resumed: bool,
}

impl Fences {
    /// Says that the next daemon took the session up.
    pub(crate) fn resume(&mut self) {
        self.resumed = true;
    }
}
