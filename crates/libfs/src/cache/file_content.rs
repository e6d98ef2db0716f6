//! The content of a regular file: what its own log holds, over what the shared area holds.
//!
//! | layer | value | goes away |
//! |---|---|---|
//! | overlay | payload in the log, blocks that the session wrote to an arena, or zeros a truncation or clearing left | when its log position is retired |
//! | base | place in an arena | replaced by digests' reports |
//!
//! A digest that overwrites blocks in place does not report them, because the base has them. If the base has
//! them not (the file grew over a part of a block), the extents are fetched again.
//!
//! Zeros in the overlay shield a truncated or cleared range from extents that an earlier digest reports late.
//! If such a report would have changed the base under a shield, the base is fetched again once the shield
//! goes (`stale`).

use crate::cache::interval::{IntervalMap, Sliding, Spares};
use crate::sync::{AtomicU64, Ordering};
use cuesta_format::{BLOCK_BYTES, BlockAddress, Extent, LogPosition};
use std::ops::Range;

/// A piece of the overlay, in two words: there may be many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OverlayPiece {
    /// Of the entry that made it; of payload in the log its own.
    position: LogPosition,
    /// The byte address of staged payload, [`IN_LOG`] or [`ZEROS`].
    place: u64,
}

/// No arena has such an address.
const IN_LOG: u64 = u64::MAX;
const ZEROS: u64 = u64::MAX - 1;

/// The meaning of a piece of the overlay.
enum Fresh {
    Log(LogPosition),
    Staged(u64),
    Zeros,
}

impl OverlayPiece {
    fn log(position: LogPosition) -> OverlayPiece {
        OverlayPiece { position, place: IN_LOG }
    }

    fn zeros(position: LogPosition) -> OverlayPiece {
        OverlayPiece { position, place: ZEROS }
    }

    #[inline]
    fn fresh(self) -> Fresh {
        match self.place {
            IN_LOG => Fresh::Log(self.position),
            ZEROS => Fresh::Zeros,
            address => Fresh::Staged(address),
        }
    }
}

impl Sliding for OverlayPiece {
    #[inline]
    fn slide(self, bytes: u64) -> Self {
        match self.place {
            IN_LOG => OverlayPiece::log(self.position.plus(bytes)),
            ZEROS => self,
            address => OverlayPiece { place: address + bytes, ..self },
        }
    }

    fn spares() -> &'static Spares<OverlayPiece> {
        static SPARES: Spares<OverlayPiece> = Spares::new();
        &SPARES
    }
}

/// A byte address in the shared area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ArenaAddress(u64);

impl Sliding for ArenaAddress {
    fn slide(self, bytes: u64) -> Self {
        ArenaAddress(self.0 + bytes)
    }

    fn spares() -> &'static Spares<ArenaAddress> {
        static SPARES: Spares<ArenaAddress> = Spares::new();
        &SPARES
    }
}

/// A truncation or clearing whose zeros are in the overlay.
#[derive(Clone, Copy, Debug)]
struct Cut {
    position: LogPosition,
    start: u64,
    end: u64,
}

/// Where bytes of a file lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the log, from this position on.
    Log(LogPosition),
    /// In an arena, from this byte address on.
    Arena(u64),
    /// In blocks that this session wrote to an arena and no digest has adopted, from this byte address on.
    Staged(u64),
    /// Nowhere: they read as zeros.
    Hole,
    /// Not known: the extents from this offset on must be fetched.
    Unknown,
}

/// The content.
#[derive(Debug)]
pub(crate) struct FileContent {
    overlay: IntervalMap<OverlayPiece>,
    base: IntervalMap<ArenaAddress>,
    /// The base is known below this offset.
    known_to: u64,
    stale: bool,
    cuts: Vec<Cut>,
    /// Blocks that hold content, or [`UNCOUNTED`] if anything but a write has changed since the count.
    counted: AtomicU64,
}

const UNCOUNTED: u64 = u64::MAX;

impl FileContent {
    /// The content of a new file.
    pub(crate) fn empty() -> FileContent {
        FileContent {
            overlay: IntervalMap::new(),
            base: IntervalMap::new(),
            known_to: u64::MAX,
            stale: false,
            cuts: Vec::new(),
            counted: AtomicU64::new(UNCOUNTED),
        }
    }

    /// The content of a file of `size` bytes in the shared area.
    pub(crate) fn granted(
        size: u64,
        extents: impl IntoIterator<Item = Extent>,
        complete: bool,
    ) -> FileContent {
        let mut content = FileContent { known_to: 0, ..FileContent::empty() };
        content.learn(extents, complete);
        content.base.remove(size..u64::MAX);
        content
    }

    /// The offset from which on extents are not known. `None`: all are known.
    pub(crate) fn unknown_from(&self) -> Option<u64> {
        (self.known_to != u64::MAX).then_some(self.known_to)
    }

    /// Takes extents that follow the known ones, in order.
    pub(crate) fn learn(&mut self, extents: impl IntoIterator<Item = Extent>, complete: bool) {
        for extent in extents {
            self.place(&extent);
            self.known_to = self.known_to.max(extent.end_block().saturating_mul(BLOCK_BYTES));
        }
        if complete {
            self.known_to = u64::MAX;
        }
    }

    /// Marks the count of blocks as out of date.
    fn recount(&mut self) {
        *self.counted.get_mut() = UNCOUNTED;
    }

    /// Takes an extent that a digest placed.
    pub(crate) fn place(&mut self, extent: &Extent) {
        self.recount();
        let start = extent.file_block.saturating_mul(BLOCK_BYTES);
        let range = start..extent.end_block().saturating_mul(BLOCK_BYTES);
        let BlockAddress(address) = extent.address;
        if self.cuts.is_empty() {
            return self.base.insert_joining(range, ArenaAddress(address));
        }
        let mut at = range.start;
        while at < range.end {
            let shield = self
                .overlay
                .in_range(at..range.end)
                .find(|(_, piece)| piece.place == ZEROS)
                .map_or(range.end..range.end, |(shield, _)| shield);
            self.base.insert_joining(at..shield.start, ArenaAddress(address + (at - start)));
            self.stale |= !shield.is_empty();
            at = shield.end;
        }
    }

    /// Overlays `range` with a write whose payload starts at `position`.
    #[inline]
    pub(crate) fn write(&mut self, range: Range<u64>, position: LogPosition) {
        self.overlay_with(range, OverlayPiece::log(position));
    }

    /// Overlays `range` with blocks that the session wrote at `address`, by an entry at `position`.
    pub(crate) fn write_staged(&mut self, range: Range<u64>, address: BlockAddress, position: LogPosition) {
        self.overlay_with(range, OverlayPiece { position, place: address.0 });
    }

    #[inline]
    fn overlay_with(&mut self, range: Range<u64>, piece: OverlayPiece) {
        let counted = *self.counted.get_mut();
        if counted != UNCOUNTED {
            let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
            let held = self.count(blocks.start * BLOCK_BYTES, blocks.end * BLOCK_BYTES);
            *self.counted.get_mut() = counted + (blocks.end - blocks.start).saturating_sub(held);
        }
        self.overlay.insert(range, piece);
    }

    /// Changes the size, by an entry at `position`. Says whether there is something to retire after the
    /// digest.
    pub(crate) fn truncate(&mut self, old_size: u64, size: u64, position: LogPosition) -> bool {
        if size >= old_size {
            return false;
        }
        let end = old_size.next_multiple_of(BLOCK_BYTES);
        self.recount();
        self.base.remove(size..u64::MAX);
        self.shield(size..end, position);
        true
    }

    /// Clears a range, by an entry at `position`. Says whether there is something to retire after the digest.
    pub(crate) fn clear(&mut self, range: Range<u64>, position: LogPosition) -> bool {
        if range.is_empty() {
            return false;
        }
        self.recount();
        self.base.remove(range.clone());
        self.shield(range, position);
        true
    }

    fn shield(&mut self, range: Range<u64>, position: LogPosition) {
        self.overlay.insert(range.clone(), OverlayPiece::zeros(position));
        self.cuts.push(Cut { position, start: range.start, end: range.end });
    }

    /// Whether nothing of the file is in the log, and all its extents are known. Otherwise a shift would be
    /// wrong, because digests still have extents to report.
    pub(crate) fn may_shift(&self) -> bool {
        self.is_clean() && self.known_to == u64::MAX
    }

    /// Takes a range out of the content, or makes room at its start. The content must be one that
    /// [`FileContent::may_shift`] allows.
    pub(crate) fn shift(&mut self, range: Range<u64>, insert: bool) {
        self.recount();
        let length = range.end - range.start;
        let before: Vec<_> = self.base.in_range(0..range.start).collect();
        let behind: Vec<_> =
            self.base.in_range(if insert { range.start } else { range.end }..u64::MAX).collect();
        self.base.clear();
        for (piece, place) in before {
            self.base.insert_joining(piece, place);
        }
        for (piece, place) in behind {
            let moved = match insert {
                true => piece.start + length..piece.end + length,
                false => piece.start - length..piece.end - length,
            };
            self.base.insert_joining(moved, place);
        }
    }

    /// Drops the overlay of entries below `end`: the base has what they wrote.
    pub(crate) fn retire_writes(&mut self, end: LogPosition) {
        self.recount();
        let (base, known_to) = (&self.base, self.known_to);
        let mut is_known = true;
        self.overlay.remove_if(0..u64::MAX, |range, piece| {
            let is_retired = piece.place != ZEROS && piece.position < end;
            if is_retired {
                is_known &= base.covers(range.start..range.end.min(known_to));
            }
            is_retired
        });
        if !is_known {
            self.base.clear();
            self.known_to = 0;
        }
    }

    /// Drops the zeros of the truncation or clearing at `position`: it is digested.
    pub(crate) fn retire_truncate(&mut self, position: LogPosition) {
        let Some(index) = self.cuts.iter().position(|cut| cut.position == position) else {
            return;
        };
        self.recount();
        let cut = self.cuts.swap_remove(index);
        self.overlay.remove_if(cut.start..cut.end, |_, piece| piece == OverlayPiece::zeros(position));
        if self.stale {
            self.stale = false;
            self.base.clear();
            self.known_to = 0;
        }
    }

    /// Whether nothing of the file is in the log any more.
    pub(crate) fn is_clean(&self) -> bool {
        self.overlay.is_empty() && self.cuts.is_empty()
    }

    /// Where the byte at `at` lies, and how many bytes up to `end` follow it there.
    #[inline]
    pub(crate) fn find(&self, at: u64, end: u64) -> (u64, Source) {
        let mut end = end;
        if !self.overlay.is_empty()
            && let Some((range, piece)) = self.overlay.first_in(at..end)
        {
            if range.start == at {
                let source = match piece.fresh() {
                    Fresh::Log(position) => Source::Log(position),
                    Fresh::Staged(address) => Source::Staged(address),
                    Fresh::Zeros => Source::Hole,
                };
                return (range.end - at, source);
            }
            end = range.start;
        }
        match self.base.first_in(at..end) {
            Some((range, ArenaAddress(address))) if range.start == at => {
                (range.end - at, Source::Arena(address))
            }
            _ if at >= self.known_to => (end - at, Source::Unknown),
            Some((range, _)) => (range.start - at, Source::Hole),
            None => (end.min(self.known_to) - at, Source::Hole),
        }
    }

    /// The first offset from `from` on that lies in a block with content (`data`) or without, in a file of
    /// `size` bytes. The end of the file is in no block. `Err`: extents must be fetched first.
    pub(crate) fn boundary(&self, from: u64, size: u64, data: bool) -> Result<Option<u64>, ()> {
        let mut at = from - from % BLOCK_BYTES;
        // Where the hole began that ends at `at`.
        let mut hole = at;
        while at < size {
            let (bytes, source) = self.find(at, size);
            let end = at + bytes.max(1);
            match source {
                Source::Unknown => return Err(()),
                Source::Hole => {
                    let first = hole.next_multiple_of(BLOCK_BYTES);
                    if !data && (end >= size || end - first.min(end) >= BLOCK_BYTES) && first < size {
                        return Ok(Some(first.max(from)));
                    }
                }
                Source::Log(_) | Source::Arena(_) | Source::Staged(_) if data => {
                    return Ok(Some((at - at % BLOCK_BYTES).max(from)));
                }
                Source::Log(_) | Source::Arena(_) | Source::Staged(_) => hole = end,
            }
            at = end;
        }
        Ok((!data).then_some(size))
    }

    /// Blocks that hold content, of a file of `size` bytes. For a file of very many pieces it is an estimate.
    pub(crate) fn blocks(&self, size: u64, blocks_known: u64) -> u64 {
        const PIECES_MAX: usize = 4096;
        let counted = self.counted.load(Ordering::Relaxed);
        if counted != UNCOUNTED {
            return counted;
        }
        if self.known_to != u64::MAX {
            return blocks_known;
        }
        if self.overlay.len() + self.base.len() > PIECES_MAX {
            return size.div_ceil(BLOCK_BYTES);
        }
        let counted = self.count(0, size);
        self.counted.store(counted, Ordering::Relaxed);
        counted
    }

    /// Blocks that a write of a range adds to those with content, if all extents there are known.
    pub(crate) fn missing(&self, range: Range<u64>) -> Option<u64> {
        let (start, end) = (range.start / BLOCK_BYTES, range.end.div_ceil(BLOCK_BYTES));
        let (first, behind) = (start * BLOCK_BYTES, end.saturating_mul(BLOCK_BYTES));
        (behind <= self.known_to).then(|| (end - start).saturating_sub(self.count(first, behind)))
    }

    /// Blocks with content in a range that starts at a block boundary.
    fn count(&self, start: u64, end: u64) -> u64 {
        let mut blocks = 0;
        let mut counted_to = 0;
        let mut at = start;
        while at < end {
            let (bytes, source) = self.find(at, end);
            if !matches!(source, Source::Hole | Source::Unknown) {
                let first = (at / BLOCK_BYTES).max(counted_to);
                let end = (at + bytes).div_ceil(BLOCK_BYTES);
                blocks += end.saturating_sub(first);
                counted_to = counted_to.max(end);
            }
            at += bytes.max(1);
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(file_block: u64, blocks: u32, address: u64) -> Extent {
        Extent { file_block, blocks, address: BlockAddress(address * BLOCK_BYTES) }
    }

    #[test]
    fn overlay_covers_base_covers_holes() {
        let mut content = FileContent::granted(3 * BLOCK_BYTES, [extent(1, 1, 9)], true);
        content.write(BLOCK_BYTES + 10..BLOCK_BYTES + 20, LogPosition(640));
        assert_eq!(content.find(0, 9000), (BLOCK_BYTES, Source::Hole));
        assert_eq!(content.find(BLOCK_BYTES, 9000), (10, Source::Arena(9 * BLOCK_BYTES)));
        assert_eq!(content.find(BLOCK_BYTES + 15, 9000), (5, Source::Log(LogPosition(645))));
        assert_eq!(content.find(2 * BLOCK_BYTES, 9000), (9000 - 2 * BLOCK_BYTES, Source::Hole));
        content.retire_writes(LogPosition(704));
        assert!(content.is_clean());
        assert_eq!(content.blocks(3 * BLOCK_BYTES, 0), 1);
    }

    #[test]
    fn staged_blocks_are_read_where_they_are_until_the_base_has_them() {
        let mut content = FileContent::empty();
        let (block, entry) = (BLOCK_BYTES, LogPosition(640));
        content.write(0..10, LogPosition(900));
        content.write_staged(10..10 + 2 * block, BlockAddress(50 * block), entry);
        content.write(block..block + 5, LogPosition(2000));
        assert_eq!(content.find(0, 99_999), (10, Source::Log(LogPosition(900))));
        assert_eq!(content.find(20, 99_999), (block - 20, Source::Staged(50 * block + 10)));
        assert_eq!(content.find(block + 5, 99_999), (block + 5, Source::Staged(51 * block - 5)));
        content.place(&extent(0, 3, 50));
        content.retire_writes(LogPosition(1000));
        assert_eq!(content.find(20, block), (block - 20, Source::Arena(50 * block + 20)));
        assert_eq!(content.find(block, 2 * block), (5, Source::Log(LogPosition(2000))));
        assert!(!content.is_clean());
    }

    /// A program that alternates between writing and asking for the size pays for what it wrote, not for the
    /// whole file.
    #[test]
    fn blocks_are_counted_as_they_are_written() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut content = FileContent::granted(1 << 20, [extent(3, 20, 9), extent(60, 1, 99)], true);
        let mut size = 1 << 20;
        for attempt in 1..2000 {
            let at = random.u64(..1 << 20);
            let end = at + random.u64(1..20_000);
            let position = LogPosition(attempt * 64);
            match random.u32(..40) {
                0 => {
                    content.truncate(size, at, position);
                    size = at;
                }
                1 => drop(content.clear(at..end, position)),
                2 => content.retire_truncate(LogPosition((attempt - 1) * 64)),
                3 => content.place(&extent(at / BLOCK_BYTES, 2, 1000)),
                _ => {
                    content.write(at..end, position);
                    size = size.max(end);
                }
            }
            let said = content.blocks(size, u64::MAX);
            let all = if content.known_to == u64::MAX { content.count(0, size) } else { u64::MAX };
            assert_eq!(said, all, "attempt {attempt}");
        }
    }

    #[test]
    fn a_write_adds_the_blocks_that_are_not_there() {
        let mut content = FileContent::granted(10 * BLOCK_BYTES, [extent(2, 3, 9)], true);
        assert_eq!(content.missing(0..10 * BLOCK_BYTES), Some(7));
        assert_eq!(content.missing(3 * BLOCK_BYTES + 5..5 * BLOCK_BYTES + 1), Some(1));
        content.write(5 * BLOCK_BYTES + 7..5 * BLOCK_BYTES + 9, LogPosition(64));
        assert_eq!(content.missing(3 * BLOCK_BYTES + 5..5 * BLOCK_BYTES + 1), Some(0));
        assert_eq!(content.missing(1 << 30..(1 << 30) + 1), Some(1), "behind the end");
        let part = FileContent::granted(10 * BLOCK_BYTES, [extent(0, 3, 9)], false);
        assert_eq!((part.missing(0..BLOCK_BYTES), part.missing(0..4 * BLOCK_BYTES)), (Some(0), None));
    }

    #[test]
    fn a_truncated_range_does_not_come_back_by_a_late_report() {
        let mut content = FileContent::empty();
        content.write(0..8192, LogPosition(64));
        content.truncate(8192, 100, LogPosition(9000));
        content.place(&extent(0, 2, 5));
        content.retire_writes(LogPosition(8320));
        assert_eq!(content.find(0, 8192), (100, Source::Arena(5 * BLOCK_BYTES)));
        assert_eq!(content.find(100, 8192), (8092, Source::Hole));
        content.retire_truncate(LogPosition(9000));
        assert_eq!(content.find(0, 8192).1, Source::Unknown, "the base is fetched anew");
        assert!(content.is_clean());
    }

    #[test]
    fn a_cleared_range_is_shielded_until_it_was_digested() {
        let mut content = FileContent::granted(5 * BLOCK_BYTES, [extent(0, 5, 20)], true);
        assert!(content.clear(100..2 * BLOCK_BYTES, LogPosition(640)));
        content.place(&extent(0, 5, 40));
        assert_eq!(content.find(0, 9000), (100, Source::Arena(40 * BLOCK_BYTES)));
        assert_eq!(content.find(100, 9000), (2 * BLOCK_BYTES - 100, Source::Hole));
        assert_eq!(content.find(8192, 9000).1, Source::Arena(42 * BLOCK_BYTES));
        assert!(!content.may_shift());
        content.retire_truncate(LogPosition(640));
        assert_eq!(content.find(100, 9000).1, Source::Unknown, "the base is fetched anew");
    }

    #[test]
    fn a_shift_moves_the_content_behind_it() {
        let mut content = FileContent::granted(5 * BLOCK_BYTES, [extent(0, 5, 20)], true);
        content.shift(BLOCK_BYTES..3 * BLOCK_BYTES, true);
        let size = 7 * BLOCK_BYTES;
        assert_eq!(content.find(0, size), (BLOCK_BYTES, Source::Arena(20 * BLOCK_BYTES)));
        assert_eq!(content.find(BLOCK_BYTES, size), (2 * BLOCK_BYTES, Source::Hole));
        assert_eq!(content.find(3 * BLOCK_BYTES, size), (4 * BLOCK_BYTES, Source::Arena(21 * BLOCK_BYTES)));
        content.shift(0..2 * BLOCK_BYTES, false);
        assert_eq!(content.find(0, size), (BLOCK_BYTES, Source::Hole));
        assert_eq!(content.find(BLOCK_BYTES, size).1, Source::Arena(21 * BLOCK_BYTES));
    }

    #[test]
    fn holes_and_data_begin_at_blocks() {
        let size = 10 * BLOCK_BYTES + 10;
        let mut content = FileContent::granted(size, [extent(6, 1, 9)], true);
        content.write(2 * BLOCK_BYTES + 10..3 * BLOCK_BYTES + 10, LogPosition(640));
        let data = |from| content.boundary(from, size, true);
        let hole = |from| content.boundary(from, size, false);
        let block = |number: u64| Ok(Some(number * BLOCK_BYTES));
        assert_eq!((data(0), hole(0)), (block(2), block(0)));
        assert_eq!(data(2 * BLOCK_BYTES + 1), Ok(Some(2 * BLOCK_BYTES + 1)));
        assert_eq!(data(3 * BLOCK_BYTES + 500), Ok(Some(3 * BLOCK_BYTES + 500)));
        assert_eq!((hole(2 * BLOCK_BYTES), hole(3 * BLOCK_BYTES + 500)), (block(4), block(4)));
        assert_eq!((data(4 * BLOCK_BYTES), hole(6 * BLOCK_BYTES)), (block(6), block(7)));
        assert_eq!((data(7 * BLOCK_BYTES), hole(size - 1)), (Ok(None), Ok(Some(size - 1))));
        let whole = FileContent::granted(6 * BLOCK_BYTES, [extent(0, 6, 9)], true);
        assert_eq!(whole.boundary(5, 6 * BLOCK_BYTES - 3, false), Ok(Some(6 * BLOCK_BYTES - 3)));
    }

    #[test]
    fn an_older_shield_survives_a_shorter_truncation() {
        let mut content = FileContent::empty();
        content.write(0..100_000, LogPosition(64));
        content.truncate(100_000, 0, LogPosition(200_000));
        content.truncate(0, 10, LogPosition(200_064));
        content.truncate(10, 5, LogPosition(200_128));
        content.place(&extent(0, 25, 7));
        assert_eq!(content.find(50_000, 60_000).1, Source::Hole);
    }

    #[test]
    fn unknown_extents_are_asked_for_in_order() {
        let mut content = FileContent::granted(1 << 20, [extent(0, 2, 1)], false);
        assert_eq!(content.find(0, 1 << 20), (8192, Source::Arena(BLOCK_BYTES)));
        assert_eq!(content.unknown_from(), Some(8192));
        assert_eq!(content.find(8192, 1 << 20).1, Source::Unknown);
        content.learn([extent(4, 1, 8)], true);
        assert_eq!(content.find(8192, 1 << 20), (8192, Source::Hole));
    }
}
