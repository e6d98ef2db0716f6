//! The bytes of a record lock.

/// Bytes that a lock is on, or is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::door) struct Range {
    pub first: u64,
    pub last: u64,
    pub is_exclusive: bool,
}

impl Range {
    pub(super) fn overlaps(&self, other: &Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    pub(super) fn is_in_the_way_of(&self, other: &Range) -> bool {
        self.overlaps(other) && (self.is_exclusive || other.is_exclusive)
    }

    pub(super) fn is_beside(&self, other: &Range) -> bool {
        self.last.checked_add(1) == Some(other.first) || other.last.checked_add(1) == Some(self.first)
    }

    /// The rest of it without `other`'s bytes.
    pub(super) fn without(self, other: &Range) -> impl Iterator<Item = Range> {
        let before =
            (self.first < other.first).then(|| Range { last: self.last.min(other.first - 1), ..self });
        let behind =
            (self.last > other.last).then(|| Range { first: self.first.max(other.last + 1), ..self });
        before.into_iter().chain(behind)
    }
}
