//! An interval map: ranges of a file, each with a value that knows its own byte positions.

use std::collections::BTreeMap;
use std::ops::Range;

/// A value that covers a range byte by byte, so that a part of the range has a value as well.
pub(crate) trait Sliding: Copy {
    /// The value for the part that starts `bytes` later.
    fn slide(self, bytes: u64) -> Self;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece<V> {
    end: u64,
    value: V,
}

/// Disjoint, half-open ranges in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntervalMap<V> {
    pieces: BTreeMap<u64, Piece<V>>,
    /// No piece reaches further: what is inserted behind needs no look at what is there.
    reach: u64,
}

impl<V: Sliding> IntervalMap<V> {
    pub(crate) fn new() -> Self {
        IntervalMap { pieces: BTreeMap::new(), reach: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.reach = 0;
    }

    /// Pieces held.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Gives `range` a value, in place of whatever was there.
    #[inline]
    pub(crate) fn insert(&mut self, range: Range<u64>, value: V) {
        if range.start >= range.end {
            return;
        }
        if range.start < self.reach {
            // The commonest overwrite hits exactly one piece: change it where it is.
            if let Some(piece) = self.pieces.get_mut(&range.start)
                && piece.end == range.end
            {
                piece.value = value;
                return;
            }
            self.remove(range.clone());
        }
        self.reach = self.reach.max(range.end);
        self.pieces.insert(range.start, Piece { end: range.end, value });
    }

    /// As [`IntervalMap::insert`], but grows the piece before where `value` continues it.
    pub(crate) fn insert_joining(&mut self, range: Range<u64>, value: V)
    where
        V: PartialEq,
    {
        if range.start >= range.end {
            return;
        }
        if range.start < self.reach {
            self.remove(range.clone());
        }
        self.reach = self.reach.max(range.end);
        if let Some((start, piece)) = self.pieces.range_mut(..range.start).next_back()
            && piece.end == range.start
            && piece.value.slide(range.start - start) == value
        {
            piece.end = range.end;
            return;
        }
        self.pieces.insert(range.start, Piece { end: range.end, value });
    }

    /// Takes away whatever is in `range`.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        self.remove_if(range, |_| true);
    }

    /// Takes away the parts of pieces in `range` whose piece's value (at the part's start) fits `which`.
    pub(crate) fn remove_if(&mut self, range: Range<u64>, mut which: impl FnMut(V) -> bool) {
        if range.start >= range.end {
            return;
        }
        let mut at = range.start;
        while let Some((start, piece)) = self.next_overlap(at..range.end) {
            let (from, to) = (start.max(range.start), piece.end.min(range.end));
            at = to;
            if which(piece.value.slide(from - start)) {
                self.cut_out(start, piece, from..to);
            }
            if at >= range.end {
                break;
            }
        }
    }

    /// The first piece that reaches into `range`.
    #[inline]
    fn next_overlap(&self, range: Range<u64>) -> Option<(u64, Piece<V>)> {
        if let Some((&start, &piece)) = self.pieces.range(..=range.start).next_back()
            && piece.end > range.start
        {
            return Some((start, piece));
        }
        self.pieces.range(range).next().map(|(&start, &piece)| (start, piece))
    }

    fn cut_out(&mut self, start: u64, piece: Piece<V>, hole: Range<u64>) {
        if start < hole.start {
            if let Some(left) = self.pieces.get_mut(&start) {
                left.end = hole.start;
            }
        } else {
            self.pieces.remove(&start);
        }
        if hole.end < piece.end {
            let value = piece.value.slide(hole.end - start);
            self.pieces.insert(hole.end, Piece { end: piece.end, value });
        }
    }

    /// The first piece, or part of one, in `range`: where it is and its value there.
    #[inline]
    pub(crate) fn first_in(&self, range: Range<u64>) -> Option<(Range<u64>, V)> {
        if range.start >= range.end {
            return None;
        }
        let (start, piece) = self.next_overlap(range.clone())?;
        let from = start.max(range.start);
        Some((from..piece.end.min(range.end), piece.value.slide(from - start)))
    }

    /// Every piece, or part of one, in `range`.
    pub(crate) fn in_range(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, V)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let (found, value) = self.first_in(at..range.end)?;
            at = found.end;
            Some((found, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct At(u64);

    impl Sliding for At {
        fn slide(self, bytes: u64) -> Self {
            At(self.0 + bytes)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u64, u64),
        Remove(u64, u64),
        RemoveBelow(u64, u64, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let range = || (0u64..80, 0u64..40);
        let step = prop_oneof![
            (range(), 0u64..1000).prop_map(|((at, len), value)| Step::Insert(at, len, value)),
            range().prop_map(|(at, len)| Step::Remove(at, len)),
            (range(), 0u64..1000).prop_map(|((at, len), below)| Step::RemoveBelow(at, len, below)),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_byte_array(steps in steps()) {
            let mut model = vec![None; 130];
            let mut map = IntervalMap::new();
            for step in steps {
                match step {
                    Step::Insert(at, len, value) => {
                        map.insert(at..at + len, At(value));
                        for offset in 0..len {
                            model[(at + offset) as usize] = Some(value + offset);
                        }
                    }
                    Step::Remove(at, len) => {
                        map.remove(at..at + len);
                        model[at as usize..(at + len) as usize].fill(None);
                    }
                    Step::RemoveBelow(at, len, below) => {
                        // A piece goes as a whole by its first byte in the range: check that, then follow.
                        let doomed: Vec<_> = map
                            .in_range(at..at + len)
                            .filter(|(_, value)| value.0 < below)
                            .map(|(range, _)| range)
                            .collect();
                        map.remove_if(at..at + len, |value| value.0 < below);
                        for range in doomed {
                            model[range.start as usize..range.end as usize].fill(None);
                        }
                    }
                }
                let mut seen = vec![None; 130];
                let mut last = 0;
                for (range, value) in map.in_range(0..130) {
                    prop_assert!(range.start >= last && range.start < range.end);
                    last = range.end;
                    for offset in 0..range.end - range.start {
                        seen[(range.start + offset) as usize] = Some(value.0 + offset);
                    }
                }
                prop_assert_eq!(&seen, &model);
            }
        }
    }

    #[test]
    fn an_exact_overwrite_changes_in_place() {
        let mut map = IntervalMap::new();
        map.insert(0..10, At(0));
        map.insert(10..20, At(100));
        map.insert(0..10, At(50));
        assert_eq!(map.len(), 2);
        assert_eq!(map.first_in(3..5), Some((3..5, At(53))));
        map.remove(0..20);
        map.insert(5..8, At(1));
        assert_eq!(map.first_in(0..100), Some((5..8, At(1))));
    }
}
