//! How often each predictor was right. A prediction counts once it is known what became of it.

/// Predictions of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hits {
    pub(crate) right: u64,
    pub(crate) wrong: u64,
}

impl Hits {
    /// So many predictions were right, or wrong.
    pub(crate) fn note(&mut self, right: bool, count: u64) {
        if right {
            self.right += count;
        } else {
            self.wrong += count;
        }
    }
}
