//! The interval map: most files hold one piece, which lies in the map itself. Those that hold more have them
//! in [`Chunks`].

use crate::cache::interval::chunks::Chunks;
use crate::cache::interval::piece::{Piece, Sliding};
use std::ops::Range;

/// Disjoint, half-open ranges in order.
#[derive(Clone, Debug)]
pub(crate) enum IntervalMap<V: Sliding> {
    Empty,
    One(Piece<V>),
    Many(Box<Chunks<V>>),
}

impl<V: Sliding> IntervalMap<V> {
    pub(crate) const fn new() -> Self {
        IntervalMap::Empty
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, IntervalMap::Empty)
    }

    pub(crate) fn clear(&mut self) {
        *self = IntervalMap::Empty;
    }

    /// The number of pieces.
    pub(crate) fn len(&self) -> usize {
        match self {
            IntervalMap::Empty => 0,
            IntervalMap::One(_) => 1,
            IntervalMap::Many(chunks) => chunks.len(),
        }
    }

    /// Sets the value of `range`, and replaces what was there.
    #[inline]
    pub(crate) fn insert(&mut self, range: Range<u64>, value: V) {
        if range.start >= range.end {
            return;
        }
        let piece = Piece { start: range.start, end: range.end, value };
        match self {
            IntervalMap::Many(chunks) => chunks.insert(piece),
            IntervalMap::One(one) if !piece.covers(one) => self.spill().insert(piece),
            _ => *self = IntervalMap::One(piece),
        }
    }

    /// Like [`IntervalMap::insert`], but extends the piece before, if `value` continues it.
    pub(crate) fn insert_joining(&mut self, range: Range<u64>, value: V) {
        if range.start >= range.end {
            return;
        }
        let piece = Piece { start: range.start, end: range.end, value };
        match self {
            IntervalMap::Many(chunks) => chunks.insert_joining(piece),
            IntervalMap::One(one) if one.is_continued_by(&piece) => one.end = piece.end,
            IntervalMap::One(one) if !piece.covers(one) => self.spill().insert_joining(piece),
            _ => *self = IntervalMap::One(piece),
        }
    }

    /// Removes everything in `range`.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        self.remove_if(range, |_, _| true);
    }

    /// Removes the parts of pieces in `range` that fit `which`, which gets their range and their value there.
    pub(crate) fn remove_if(&mut self, range: Range<u64>, mut which: impl FnMut(Range<u64>, V) -> bool) {
        match self {
            IntervalMap::Empty => {}
            IntervalMap::One(one) => {
                let (from, to) = (one.start.max(range.start), one.end.min(range.end));
                if from >= to || !which(from..to, one.value.slide(from - one.start)) {
                    return;
                }
                match (one.start < from, to < one.end) {
                    (true, true) => self.spill().remove_if(range, |_, _| true),
                    (true, false) => one.end = from,
                    (false, true) => *one = one.from(to),
                    (false, false) => *self = IntervalMap::Empty,
                }
            }
            IntervalMap::Many(chunks) => {
                chunks.remove_if(range, which);
                if chunks.is_empty() {
                    *self = IntervalMap::Empty;
                }
            }
        }
    }

    /// The first piece, or part of one, in `range`: its range and its value there.
    #[inline]
    pub(crate) fn first_in(&self, range: Range<u64>) -> Option<(Range<u64>, V)> {
        match self {
            IntervalMap::Empty => None,
            IntervalMap::One(one) => one.within(range),
            IntervalMap::Many(chunks) => chunks.first_in(range),
        }
    }

    /// Whether `range` has no gap.
    #[inline]
    pub(crate) fn covers(&self, mut range: Range<u64>) -> bool {
        while range.start < range.end {
            match self.first_in(range.clone()) {
                Some((found, _)) if found.start == range.start => range.start = found.end,
                _ => return false,
            }
        }
        true
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

    /// Turns the map into one that can hold several pieces.
    #[cold]
    fn spill(&mut self) -> &mut Chunks<V> {
        let mut chunks = Chunks::new();
        if let IntervalMap::One(one) = self {
            chunks.insert(*one);
        }
        *self = IntervalMap::Many(Box::new(chunks));
        match self {
            IntervalMap::Many(chunks) => chunks,
            _ => unreachable!("it was just made"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::interval::piece::Spares;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct At(u64);

    impl Sliding for At {
        fn slide(self, bytes: u64) -> Self {
            At(self.0 + bytes)
        }

        fn spares() -> &'static Spares<At> {
            static SPARES: Spares<At> = Spares::new();
            &SPARES
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
                        // A piece is removed as a whole, by the value at its first byte in the range. The
                        // model checks that, and follows.
                        let doomed: Vec<_> = map
                            .in_range(at..at + len)
                            .filter(|(_, value)| value.0 < below)
                            .map(|(range, _)| range)
                            .collect();
                        map.remove_if(at..at + len, |_, value| value.0 < below);
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

    /// Many small pieces: chunks fill, split, and disappear.
    #[test]
    fn long_maps_agree_with_a_byte_array() {
        const BYTES: u64 = 3000;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut model = vec![None; BYTES as usize];
        let mut map = IntervalMap::new();
        for step in 0..20_000_u64 {
            let at = random.u64(0..BYTES - 1);
            let longest = if random.u8(..) == 0 { BYTES } else { 4 };
            let len = random.u64(1..=longest).min(BYTES - at);
            if random.u8(..) < 40 {
                map.remove(at..at + len);
                model[at as usize..(at + len) as usize].fill(None);
            } else {
                map.insert(at..at + len, At(step * BYTES));
                for offset in 0..len {
                    model[(at + offset) as usize] = Some(step * BYTES + offset);
                }
            }
            if step % 500 == 0 {
                let mut seen = vec![None; BYTES as usize];
                let mut pieces = 0;
                for (range, value) in map.in_range(0..BYTES) {
                    pieces += 1;
                    for offset in 0..range.end - range.start {
                        seen[(range.start + offset) as usize] = Some(value.0 + offset);
                    }
                }
                assert_eq!(seen, model);
                assert_eq!(pieces, map.len());
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
