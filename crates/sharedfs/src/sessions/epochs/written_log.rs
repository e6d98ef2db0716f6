//! How far the disk has a log, by the cuts that took it.

use cuesta_format::{LogGeneration, LogPosition};

/// How far cuts took a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenLog {
    pub(super) generation: LogGeneration,
    /// The disk has everything below,
    pub(super) to: LogPosition,
    /// and this much of it is of epochs that are on the disk.
    pub(super) whole: LogPosition,
}

impl WrittenLog {
    /// How far a digest may go without a wait.
    pub(crate) fn whole(&self, generation: LogGeneration) -> LogPosition {
        if self.generation == generation { self.whole } else { LogPosition(0) }
    }

    /// How far no cut needs to write.
    pub(super) fn to(&self, generation: LogGeneration) -> LogPosition {
        if self.generation == generation { self.to } else { LogPosition(0) }
    }
}
