//! Many pieces of an interval map, in order, in chunks of bounded length. The commonest operations cost
//! least: a piece behind all others is pushed, and a run of pieces leaves each chunk in one move. A search
//! follows no pointer before it knows the last chunk.

use crate::cache::interval::piece::{CHUNK_PIECES, Piece, Sliding};
use std::collections::VecDeque;
use std::ops::Range;

/// Adjacent pieces; never empty.
#[derive(Clone, Debug)]
struct Chunk<V> {
    /// Where the first piece starts.
    first: u64,
    pieces: Vec<Piece<V>>,
}

/// Disjoint, half-open ranges in order.
#[derive(Clone, Debug)]
pub(crate) struct Chunks<V> {
    chunks: VecDeque<Chunk<V>>,
    count: usize,
    /// No piece reaches further. An insertion behind it need not look for pieces that it overlaps.
    reach: u64,
    /// The chunk that got the last piece, as long as no chunk was removed since. The next piece mostly goes
    /// there, too.
    latest: usize,
}

impl<V: Sliding> Chunks<V> {
    pub(super) fn new() -> Self {
        Chunks { chunks: VecDeque::new(), count: 0, reach: 0, latest: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of pieces.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds a piece in the place of all pieces, and parts of pieces, that it overlaps.
    #[inline]
    pub(super) fn insert(&mut self, piece: Piece<V>) {
        if piece.start >= self.reach {
            return self.push(piece);
        }
        let before = self.last_from(piece.start);
        // The commonest overwrite hits exactly one piece, which changes in place, or none.
        if let Some(found) = self.exactly(before, &piece) {
            *found = piece;
            return;
        }
        if self.is_free(before, &piece) {
            return self.put_behind(before, piece);
        }
        // A file that was cut is written again from its beginning. It held one hole, which becomes shorter.
        if let Some((chunk, index)) = before
            && let Some(found) = self.chunks[chunk].pieces.get_mut(index)
            && found.start == piece.start
            && found.end > piece.end
        {
            let rest = found.from(piece.end);
            *found = piece;
            return self.put_behind(before, rest);
        }
        self.remove_if(piece.start..piece.end, |_, _| true);
        self.put(piece);
    }

    /// Like [`Chunks::insert`], but extends the piece before, if this one continues it.
    pub(super) fn insert_joining(&mut self, piece: Piece<V>) {
        let mut before = self.last_from(piece.start);
        if let Some(found) = self.exactly(before, &piece) {
            *found = piece;
            return;
        }
        if !self.is_free(before, &piece) {
            self.remove_if(piece.start..piece.end, |_, _| true);
            before = self.last_from(piece.start);
        }
        if let Some((chunk, index)) = before
            && let Some(joined) = self.chunks[chunk].pieces.get_mut(index)
            && joined.is_continued_by(&piece)
        {
            joined.end = piece.end;
            self.reach = self.reach.max(piece.end);
            return;
        }
        self.put_behind(before, piece);
    }

    /// Removes the parts of pieces in `range` that fit `which`, which gets their range and their value there.
    pub(super) fn remove_if(&mut self, range: Range<u64>, mut which: impl FnMut(Range<u64>, V) -> bool) {
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
                let left = if !which(from..to, piece.value.slide(from - piece.start)) {
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
                None => {
                    if let Some(emptied) = self.chunks.remove(at) {
                        V::spares().give(emptied.pieces);
                    }
                }
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

    /// The first piece, or part of one, in `range`: its range and its value there.
    #[inline]
    pub(super) fn first_in(&self, range: Range<u64>) -> Option<(Range<u64>, V)> {
        if range.start >= range.end || range.start >= self.reach {
            return None;
        }
        let (chunk, index) = self.first_behind(range.start)?;
        self.chunks[chunk].pieces.get(index)?.within(range)
    }

    /// The last piece that starts at or before `at`: its chunk, and its index there.
    #[inline]
    fn last_from(&self, at: u64) -> Option<(usize, usize)> {
        let chunk = if self.is_within(self.latest, at) {
            self.latest
        } else {
            self.chunks.partition_point(|chunk| chunk.first <= at).checked_sub(1)?
        };
        let index = self.chunks[chunk].pieces.partition_point(|piece| piece.start <= at);
        Some((chunk, index - 1))
    }

    /// Whether `at` lies in a chunk, or behind it and before the next.
    #[inline]
    fn is_within(&self, chunk: usize, at: u64) -> bool {
        self.chunks.get(chunk).is_some_and(|found| found.first <= at)
            && self.chunks.get(chunk + 1).is_none_or(|next| next.first > at)
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
            // The first chunk grows as it fills, because most maps hold little.
            last => {
                let mut pieces = if last.is_some() { full_sized() } else { Vec::with_capacity(2) };
                pieces.push(piece);
                self.chunks.push_back(Chunk { first: piece.start, pieces });
            }
        }
    }

    /// The piece at `place`, if its range is that of `piece`.
    #[inline]
    fn exactly(&mut self, place: Option<(usize, usize)>, piece: &Piece<V>) -> Option<&mut Piece<V>> {
        let (chunk, index) = place?;
        let found = self.chunks[chunk].pieces.get_mut(index)?;
        ((found.start, found.end) == (piece.start, piece.end)).then_some(found)
    }

    /// Whether `piece` meets no other piece, when it is inserted behind the last one that starts before it.
    #[inline]
    fn is_free(&self, before: Option<(usize, usize)>, piece: &Piece<V>) -> bool {
        let (chunk, behind) = match before {
            Some((chunk, index)) if self.chunks[chunk].pieces[index].end > piece.start => return false,
            Some((chunk, index)) => (chunk, index + 1),
            None => (0, 0),
        };
        let next = self.chunks.get(chunk).and_then(|chunk| chunk.pieces.get(behind)).map(|next| next.start);
        let next = next.or_else(|| self.chunks.get(chunk + 1).map(|chunk| chunk.first));
        next.is_none_or(|next| next >= piece.end)
    }

    /// Adds a piece where no piece is.
    fn put(&mut self, piece: Piece<V>) {
        self.put_behind(self.last_from(piece.start), piece);
    }

    /// Adds a piece where no piece is, behind the last one that starts before it.
    fn put_behind(&mut self, before: Option<(usize, usize)>, piece: Piece<V>) {
        if piece.start >= self.reach {
            return self.push(piece);
        }
        self.count += 1;
        self.reach = self.reach.max(piece.end);
        let (mut at, mut index) = before.map_or((0, 0), |(chunk, index)| (chunk, index + 1));
        if self.chunks[at].pieces.len() >= CHUNK_PIECES {
            let mut behind = full_sized();
            behind.extend(self.chunks[at].pieces.drain(CHUNK_PIECES / 2..));
            self.chunks.insert(at + 1, Chunk { first: behind[0].start, pieces: behind });
            if index > CHUNK_PIECES / 2 {
                (at, index) = (at + 1, index - CHUNK_PIECES / 2);
            }
        }
        self.latest = at;
        let chunk = &mut self.chunks[at];
        chunk.pieces.insert(index, piece);
        chunk.first = chunk.pieces[0].start;
    }
}

/// Memory for a full chunk.
fn full_sized<V: Sliding>() -> Vec<Piece<V>> {
    V::spares().take().unwrap_or_else(|| Vec::with_capacity(CHUNK_PIECES))
}
