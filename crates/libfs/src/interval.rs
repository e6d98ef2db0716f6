//! An interval map: ranges of a file, each with a value that knows its own byte positions.
//!
//! Pieces lie in order in chunks of bounded length. What is done most costs least: a piece behind all others is
//! pushed, a run of pieces is taken away from each chunk in one move, and no search follows a pointer before the
//! last chunk is known.

use std::collections::VecDeque;
use std::ops::Range;

/// Most pieces of one chunk: what an insertion may have to move.
const CHUNK_PIECES: usize = 64;

/// A value that covers a range byte by byte, so that a part of the range has a value as well.
pub(crate) trait Sliding: Copy {
    /// The value for the part that starts `bytes` later.
    fn slide(self, bytes: u64) -> Self;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece<V> {
    start: u64,
    end: u64,
    value: V,
}

impl<V: Sliding> Piece<V> {
    /// The part from `start` on.
    #[inline]
    fn from(self, start: u64) -> Piece<V> {
        Piece { start, end: self.end, value: self.value.slide(start - self.start) }
    }
}

/// Pieces that follow each other; never empty.
#[derive(Clone, Debug)]
struct Chunk<V> {
    /// Where the first piece starts.
    first: u64,
    pieces: Vec<Piece<V>>,
}

/// Disjoint, half-open ranges in order.
#[derive(Clone, Debug)]
pub(crate) struct IntervalMap<V> {
    chunks: VecDeque<Chunk<V>>,
    count: usize,
    /// No piece reaches further: what is inserted behind needs no look at what is there.
    reach: u64,
}

impl<V: Sliding> IntervalMap<V> {
    pub(crate) fn new() -> Self {
        IntervalMap { chunks: VecDeque::new(), count: 0, reach: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn clear(&mut self) {
        *self = IntervalMap::new();
    }

    /// Pieces held.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Gives `range` a value, in place of whatever was there.
    #[inline]
    pub(crate) fn insert(&mut self, range: Range<u64>, value: V) {
        if range.start >= range.end {
            return;
        }
        let piece = Piece { start: range.start, end: range.end, value };
        if range.start >= self.reach {
            return self.push(piece);
        }
        // The commonest overwrite hits exactly one piece: change it where it is.
        if let Some((chunk, index)) = self.last_from(range.start)
            && let Some(found) = self.chunks[chunk].pieces.get_mut(index)
            && (found.start, found.end) == (piece.start, piece.end)
        {
            *found = piece;
            return;
        }
        self.remove(range);
        self.put(piece);
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
        if let Some((chunk, index)) = self.last_from(range.start)
            && let Some(before) = self.chunks[chunk].pieces.get_mut(index)
            && before.end == range.start
            && before.value.slide(range.start - before.start) == value
        {
            before.end = range.end;
            self.reach = self.reach.max(range.end);
            return;
        }
        self.put(Piece { start: range.start, end: range.end, value });
    }

    /// Takes away whatever is in `range`.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        self.remove_if(range, |_| true);
    }

    /// Takes away the parts of pieces in `range` whose piece's value (at the part's start) fits `which`.
    pub(crate) fn remove_if(&mut self, range: Range<u64>, mut which: impl FnMut(V) -> bool) {
        if range.start >= range.end || range.start >= self.reach {
            return;
        }
        let Some((mut at, mut index)) = self.first_behind(range.start) else { return };
        while let Some(chunk) = self.chunks.get_mut(at) {
            let pieces = &mut chunk.pieces;
            let (mut kept, mut looked) = (index, index);
            while let Some(&piece) = pieces.get(looked).filter(|piece| piece.start < range.end) {
                let (from, to) = (piece.start.max(range.start), piece.end.min(range.end));
                looked += 1;
                let left = if !which(piece.value.slide(from - piece.start)) {
                    Some(piece)
                } else if piece.start < from {
                    if to < piece.end {
                        // The hole lies inside one piece, and nothing else is in the range.
                        pieces[kept].end = from;
                        return self.put(piece.from(to));
                    }
                    Some(Piece { end: from, ..piece })
                } else {
                    (to < piece.end).then(|| piece.from(to))
                };
                if let Some(left) = left {
                    pieces[kept] = left;
                    kept += 1;
                }
            }
            let ends_here = looked < pieces.len();
            pieces.drain(kept..looked);
            self.count -= looked - kept;
            match pieces.first() {
                Some(first) => {
                    chunk.first = first.start;
                    at += 1;
                }
                None => drop(self.chunks.remove(at)),
            }
            if ends_here {
                break;
            }
            index = 0;
        }
        if self.count == 0 {
            self.reach = 0;
        }
    }

    /// The first piece, or part of one, in `range`: where it is and its value there.
    #[inline]
    pub(crate) fn first_in(&self, range: Range<u64>) -> Option<(Range<u64>, V)> {
        if range.start >= range.end || range.start >= self.reach {
            return None;
        }
        let (chunk, index) = self.first_behind(range.start)?;
        let piece = self.chunks[chunk].pieces.get(index).filter(|piece| piece.start < range.end)?;
        let from = piece.start.max(range.start);
        Some((from..piece.end.min(range.end), piece.value.slide(from - piece.start)))
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

    /// The last piece that starts at or before `at`: its chunk, and its index there.
    #[inline]
    fn last_from(&self, at: u64) -> Option<(usize, usize)> {
        let chunk = self.chunks.partition_point(|chunk| chunk.first <= at).checked_sub(1)?;
        let index = self.chunks[chunk].pieces.partition_point(|piece| piece.start <= at);
        Some((chunk, index - 1))
    }

    /// The first piece that ends behind `at`.
    #[inline]
    fn first_behind(&self, at: u64) -> Option<(usize, usize)> {
        let Some((chunk, index)) = self.last_from(at) else {
            return (self.count > 0).then_some((0, 0));
        };
        let pieces = &self.chunks[chunk].pieces;
        if pieces[index].end > at {
            Some((chunk, index))
        } else if index + 1 < pieces.len() {
            Some((chunk, index + 1))
        } else {
            (chunk + 1 < self.chunks.len()).then_some((chunk + 1, 0))
        }
    }

    /// Adds a piece behind all others.
    #[inline]
    fn push(&mut self, piece: Piece<V>) {
        self.count += 1;
        self.reach = piece.end;
        match self.chunks.back_mut() {
            Some(last) if last.pieces.len() < CHUNK_PIECES => last.pieces.push(piece),
            // The first chunk grows as it fills: most maps hold little.
            last => {
                let mut pieces = Vec::with_capacity(if last.is_some() { CHUNK_PIECES } else { 1 });
                pieces.push(piece);
                self.chunks.push_back(Chunk { first: piece.start, pieces });
            }
        }
    }

    /// Adds a piece where nothing is.
    fn put(&mut self, piece: Piece<V>) {
        if piece.start >= self.reach {
            return self.push(piece);
        }
        self.count += 1;
        self.reach = self.reach.max(piece.end);
        let (mut at, mut index) =
            self.last_from(piece.start).map_or((0, 0), |(chunk, index)| (chunk, index + 1));
        if self.chunks[at].pieces.len() >= CHUNK_PIECES {
            let mut behind = Vec::with_capacity(CHUNK_PIECES);
            behind.extend(self.chunks[at].pieces.drain(CHUNK_PIECES / 2..));
            self.chunks.insert(at + 1, Chunk { first: behind[0].start, pieces: behind });
            if index > CHUNK_PIECES / 2 {
                (at, index) = (at + 1, index - CHUNK_PIECES / 2);
            }
        }
        let chunk = &mut self.chunks[at];
        chunk.pieces.insert(index, piece);
        chunk.first = chunk.pieces[0].start;
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

    /// Many small pieces: chunks fill, split, and go.
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
