//! One piece of an interval map, and the memory of chunks of pieces.

use crate::sync::Mutex;
use std::ops::Range;

/// The most pieces of one chunk, which an insertion may have to move.
pub(super) const CHUNK_PIECES: usize = 64;
/// How many emptied chunks are kept for reuse.
const SPARE_CHUNKS: usize = 512;

/// A value that covers a range byte by byte, so that each part of the range has a value, too.
pub(crate) trait Sliding: Copy + PartialEq + 'static {
    /// The value of the part that starts `bytes` later.
    fn slide(self, bytes: u64) -> Self;

    /// Where emptied chunks of such values are kept.
    fn spares() -> &'static Spares<Self>;
}

/// Memory of emptied chunks, shared by the process. A program that alternates between writes and digests
/// allocates nothing. The lock is only ever tried: in a child of fork, a thread that no longer exists may
/// hold it.
pub(crate) struct Spares<V>(Mutex<Vec<Vec<Piece<V>>>>);

impl<V> Spares<V> {
    pub(crate) const fn new() -> Spares<V> {
        Spares(Mutex::new(Vec::new()))
    }

    /// The memory of an emptied chunk, if there is one.
    pub(super) fn take(&self) -> Option<Vec<Piece<V>>> {
        self.0.try_lock()?.pop()
    }

    pub(super) fn give(&self, mut pieces: Vec<Piece<V>>) {
        if pieces.capacity() >= CHUNK_PIECES
            && let Some(mut spares) = self.0.try_lock()
            && spares.len() < SPARE_CHUNKS
        {
            pieces.clear();
            spares.push(pieces);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<V> {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) value: V,
}

impl<V: Sliding> Piece<V> {
    /// The part from `start` on.
    #[inline]
    pub(super) fn from(self, start: u64) -> Piece<V> {
        Piece { start, end: self.end, value: self.value.slide(start - self.start) }
    }

    /// The part that lies in `range`, and its value there.
    #[inline]
    pub(super) fn within(&self, range: Range<u64>) -> Option<(Range<u64>, V)> {
        let from = self.start.max(range.start);
        let to = self.end.min(range.end);
        (from < to).then(|| (from..to, self.value.slide(from - self.start)))
    }

    #[inline]
    pub(super) fn covers(&self, other: &Piece<V>) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether `next` starts where this piece ends, with the value that this piece would have there.
    #[inline]
    pub(super) fn is_continued_by(&self, next: &Piece<V>) -> bool {
        self.end == next.start && self.value.slide(self.end - self.start) == next.value
    }
}
