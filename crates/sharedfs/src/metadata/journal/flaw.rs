//! Flaws of a journal, and the rest of one that has a flaw.

/// How a journal is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalFlaw {
    /// The number of the header has the wrong checksum, or cannot be.
    #[error("the number that says how far it is written is damaged")]
    Number,
    /// The tree is of another age: the tree this journal was begun behind, or the journal it has had since, is
    /// gone.
    #[error("it comes behind a tree that is not there")]
    OtherTree,
    /// A record has the wrong checksum or makes no sense.
    #[error("record {number} (at byte {at} of {end}) is not what was written")]
    Record {
        /// Which one; the first is 1.
        number: u64,
        /// Where it begins.
        at: u64,
        /// Where the last record ends.
        end: u64,
    },
}

/// A journal that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalLoss {
    /// How. Whatever it held behind that is lost.
    pub flaw: JournalFlaw,
    /// Commits it holds before that.
    pub commits_kept: u64,
}
