//! Predictions of the writes to one file.

use super::hits::Hits;
use super::synchronicity::{Habit, Synchronicity};
use super::write_size::{LargeSizes, WriteSizes};
use cuesta_format::BLOCK_BYTES;
use std::ops::Range;

/// The predictors of one file.
#[derive(Debug, Default)]
pub(crate) struct Predictions {
    synchronicity: Synchronicity,
    sizes: WriteSizes,
}

/// The prediction of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prediction {
    /// Its program will wait for it soon.
    pub(crate) is_synchronous: bool,
    /// It is large, and writes to its range will stay so.
    pub(crate) is_large: bool,
}

/// How often the predictors were right since the counts were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) synchronicity: Hits,
    pub(crate) sizes: Hits,
}

impl Predictions {
    /// A write to a range of the file, which is counted. `synced`: an fsync came before it. `waits`: the program waits
    /// for each write (O_SYNC). `sizes` are the store's, `habit` is the session's.
    pub(crate) fn note_write(
        &mut self,
        range: Range<u64>,
        (synced, waits): (bool, bool),
        sizes: LargeSizes,
        habit: &Habit,
        counts: &mut Counts,
    ) -> Prediction {
        if synced {
            self.synchronicity.note_sync(habit, &mut counts.synchronicity);
        }
        let blocks = range.end.div_ceil(BLOCK_BYTES) - range.start / BLOCK_BYTES;
        let is_synchronous = waits || self.synchronicity.is_synchronous(habit);
        if !waits {
            self.synchronicity.note_write(blocks, habit, &mut counts.synchronicity);
        }
        let is_large = self.sizes.note_write(range, sizes, &mut counts.sizes);
        Prediction { is_synchronous, is_large }
    }

    /// No program has the file open any more. `synced`: an fsync came after the last write.
    pub(crate) fn note_end(&mut self, synced: bool, habit: &Habit, counts: &mut Counts) {
        if synced {
            self.synchronicity.note_sync(habit, &mut counts.synchronicity);
        }
        self.synchronicity.note_end(habit, &mut counts.synchronicity);
    }

    /// The file ends there from now on.
    pub(crate) fn cut(&mut self, end: u64) {
        self.sizes.cut(end);
    }
}
