//! Which blocks of a file a batch places, and how.
//!
//! | kind | the block's content | where it goes |
//! |---|---|---|
//! | write | of the log, over old bytes | over the old block, or into a fresh one |
//! | assemble | of the log and of staged blocks, or a part of a staged block | into a fresh block |
//! | adopt | a staged block, all of it | stays |

use crate::namespace::Part;
use cuesta_format::{BLOCK_BYTES, BlockAddress};
use std::ops::Range;

/// How blocks are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    /// They may be written where they lie.
    Write,
    /// They get fresh blocks.
    Assemble,
    /// They are the blocks from this address on.
    Adopt(BlockAddress),
}

/// Neighbouring blocks of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) blocks: Range<u64>,
    pub(super) kind: SpanKind,
}

impl Span {
    /// Whether the block behind its last one goes on with it, if that is of this kind.
    fn goes_on_as(&self, kind: SpanKind) -> bool {
        match (self.kind, kind) {
            (SpanKind::Adopt(first), SpanKind::Adopt(next)) => {
                first.0 + (self.blocks.end - self.blocks.start) * BLOCK_BYTES == next.0
            }
            (one, next) => one == next,
        }
    }
}

/// The spans of one file, in file order, without overlap.
#[derive(Debug, Default)]
pub(super) struct Spans(Vec<Span>);

impl Spans {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Span> {
        self.0.iter()
    }

    /// The blocks that may be written where they lie.
    pub(super) fn written(&self) -> Vec<Range<u64>> {
        let written = self.0.iter().filter(|span| span.kind == SpanKind::Write);
        written.map(|span| span.blocks.clone()).collect()
    }

    /// Adds blocks of a part. Parts come in file order, so only the first block can be there already: then it is
    /// assembled if either part wants that.
    pub(super) fn add(&mut self, blocks: Range<u64>, kind: SpanKind) {
        let mut blocks = blocks;
        if let Some(last) = self.0.last_mut().filter(|last| last.blocks.end > blocks.start) {
            let shared = blocks.start;
            blocks.start = last.blocks.end;
            if last.kind != kind && kind == SpanKind::Assemble {
                last.blocks.end = shared;
                if last.blocks.is_empty() {
                    self.0.pop();
                }
                self.push(shared..shared + 1, SpanKind::Assemble);
            }
        }
        if !blocks.is_empty() {
            self.push(blocks, kind);
        }
    }

    /// Adds a part that lies in staged blocks, its first byte at `address`.
    pub(super) fn add_staged(&mut self, part: &Part, address: u64) {
        let (first, end) = (part.start.div_ceil(BLOCK_BYTES), part.end / BLOCK_BYTES);
        if first >= end {
            return self.add(part.start / BLOCK_BYTES..part.end.div_ceil(BLOCK_BYTES), SpanKind::Assemble);
        }
        self.add(part.start / BLOCK_BYTES..first, SpanKind::Assemble);
        let address = BlockAddress(address + (first * BLOCK_BYTES - part.start));
        self.add(first..end, SpanKind::Adopt(address));
        self.add(end..part.end.div_ceil(BLOCK_BYTES), SpanKind::Assemble);
    }

    fn push(&mut self, blocks: Range<u64>, kind: SpanKind) {
        match self.0.last_mut().filter(|last| last.blocks.end == blocks.start && last.goes_on_as(kind)) {
            Some(last) => last.blocks.end = blocks.end,
            None => self.0.push(Span { blocks, kind }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Content;

    fn spans(parts: &[(u64, u64, Option<u64>)]) -> Vec<(u64, u64, SpanKind)> {
        let mut spans = Spans::default();
        for &(start, end, address) in parts {
            match address {
                None => spans.add(start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES), SpanKind::Write),
                Some(address) => spans.add_staged(&Part { start, end, content: Content::Gone }, address),
            }
        }
        spans.iter().map(|span| (span.blocks.start, span.blocks.end, span.kind)).collect()
    }

    #[test]
    fn whole_staged_blocks_are_adopted_and_shared_blocks_are_assembled() {
        use SpanKind::{Adopt, Assemble, Write};
        let block = BLOCK_BYTES;
        let at = |number: u64| Adopt(BlockAddress(number * block));
        assert_eq!(spans(&[(0, 3 * block, Some(7 * block))]), [(0, 3, at(7))]);
        // A write with a head and a tail in the log.
        let written =
            [(100, block, None), (block, 3 * block, Some(7 * block)), (3 * block, 3 * block + 9, None)];
        assert_eq!(spans(&written), [(0, 1, Write), (1, 3, at(7)), (3, 4, Write)]);
        // A small write over the middle of a staged one, then its end.
        let overwritten = [
            (0, block + 50, Some(7 * block)),
            (block + 50, block + 60, None),
            (block + 60, 3 * block, Some(8 * block + 60)),
        ];
        assert_eq!(spans(&overwritten), [(0, 1, at(7)), (1, 2, Assemble), (2, 3, at(9))]);
        // A block of which two writes have parts, behind and before others.
        let shared = [(0, block + 10, None), (block + 10, 3 * block, Some(8 * block + 10))];
        assert_eq!(spans(&shared), [(0, 1, Write), (1, 2, Assemble), (2, 3, at(9))]);
        let inside = [(0, 10, None), (10, 20, Some(8 * block + 10)), (20, 2 * block, None)];
        assert_eq!(spans(&inside), [(0, 1, Assemble), (1, 2, Write)]);
    }
}
