//! The synchronicity predictor (Ziggurat §4): a file, or a session, is synchronous if fewer than
//! [`SYNCHRONOUS_BLOCKS`] blocks were written between its last two fsyncs. One that was never synced is not.
//!
//! A prediction *synchronous* is right if an fsync comes within so many blocks. A prediction *asynchronous* is
//! right if none does.

use super::hits::Hits;

/// So many blocks between two fsyncs are too many for a program that waits for each change: 4 MiB.
pub(crate) const SYNCHRONOUS_BLOCKS: u64 = 1024;

/// The fsyncs of a file, or of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Synchronicity {
    /// Blocks written since the last fsync.
    since_sync: u64,
    /// Whether the last two fsyncs were close together.
    was_close: bool,
    /// There was an fsync.
    was_synced: bool,
    /// Writes since the last fsync, by what was predicted for them.
    predicted_synchronous: u64,
    predicted_asynchronous: u64,
}

impl Synchronicity {
    /// Whether an fsync is expected soon.
    pub(crate) fn is_synchronous(&self) -> bool {
        self.was_synced && self.was_close && self.since_sync < SYNCHRONOUS_BLOCKS
    }

    /// A write of so many blocks.
    #[inline]
    pub(crate) fn note_write(&mut self, blocks: u64, hits: &mut Hits) {
        if self.is_synchronous() {
            self.predicted_synchronous += 1;
        } else {
            self.predicted_asynchronous += 1;
        }
        self.since_sync += blocks;
        if self.since_sync >= SYNCHRONOUS_BLOCKS {
            self.settle(false, hits);
        }
    }

    /// An fsync.
    pub(crate) fn note_sync(&mut self, hits: &mut Hits) {
        let is_close = self.since_sync < SYNCHRONOUS_BLOCKS;
        self.settle(is_close, hits);
        // An fsync that has nothing to wait for says nothing.
        if self.since_sync > 0 {
            (self.was_close, self.was_synced) = (is_close, true);
        }
        self.since_sync = 0;
    }

    /// No fsync will come any more: the file is forgotten.
    pub(crate) fn note_end(&mut self, hits: &mut Hits) {
        self.settle(false, hits);
    }

    fn settle(&mut self, was_synced: bool, hits: &mut Hits) {
        hits.note(was_synced, std::mem::take(&mut self.predicted_synchronous));
        hits.note(!was_synced, std::mem::take(&mut self.predicted_asynchronous));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_synchronous_while_few_blocks_come_between_its_fsyncs() {
        let (mut file, mut hits) = (Synchronicity::default(), Hits::default());
        file.note_write(8, &mut hits);
        assert!(!file.is_synchronous(), "it was never synced");
        file.note_sync(&mut hits);
        assert!(file.is_synchronous());
        file.note_write(SYNCHRONOUS_BLOCKS, &mut hits);
        assert!(!file.is_synchronous(), "so much was written");
        file.note_sync(&mut hits);
        assert!(!file.is_synchronous());
        file.note_write(1, &mut hits);
        file.note_sync(&mut hits);
        assert!(file.is_synchronous());
        file.note_sync(&mut hits);
        assert!(file.is_synchronous(), "an fsync of nothing says nothing");
    }

    #[test]
    fn a_prediction_counts_when_it_is_known_what_became_of_it() {
        let (mut file, mut hits) = (Synchronicity::default(), Hits::default());
        file.note_write(1, &mut hits);
        assert_eq!(hits, Hits::default());
        file.note_sync(&mut hits);
        assert_eq!(
            std::mem::take(&mut hits),
            Hits { right: 0, wrong: 1 },
            "the first fsync comes as a surprise"
        );
        for _ in 0..10 {
            file.note_write(1, &mut hits);
            file.note_sync(&mut hits);
        }
        assert_eq!(std::mem::take(&mut hits), Hits { right: 10, wrong: 0 });
        file.note_write(1, &mut hits);
        file.note_end(&mut hits);
        assert_eq!(std::mem::take(&mut hits), Hits { right: 0, wrong: 1 });
        let mut other = Synchronicity::default();
        (0..3).for_each(|_| other.note_write(SYNCHRONOUS_BLOCKS, &mut hits));
        assert_eq!(hits, Hits { right: 3, wrong: 0 });
    }
}
