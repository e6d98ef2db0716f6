//! The state of the thread that moves content, between two parts.

use cuesta_format::{BLOCK_BYTES, InodeNumber, TierNumber, Timestamp};
use cuesta_placement::{Choice, Kind, Level, Limits, Moment, Piece, Policy};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The least length of a piece.
const PIECE_BLOCKS_LEAST: u64 = (64 << 10) / BLOCK_BYTES;
/// A tier has so many pieces at most, if its files are not smaller.
const PIECES_OF_TIER: u64 = 1 << 18;
/// A policy knows so many.
const PIECES_MAX: usize = 1 << 19;

/// The mover, between two parts.
#[derive(Debug, Default)]
pub(crate) struct Mover {
    /// How urgent it is, of each tier.
    pub(super) levels: Vec<Level>,
    /// One between each tier and those below it.
    pub(super) borders: Vec<Border>,
    /// How long it waits before it looks at all inodes again,
    pub(super) look_again: Duration,
    /// and when it does so at the earliest.
    pub(super) look_again_at: Option<Instant>,
    /// How long it waits before it looks at what sessions read again.
    pub(super) read_again: Duration,
    /// Bytes that sessions had read and written the last time,
    pub(super) seen: (u64, u64),
    /// and in the time before, of which the last part counts most.
    pub(super) recent: (u64, u64),
    pub(super) low_mark: u64,
}

/// The border between a tier and those below it.
#[derive(Debug)]
pub(super) struct Border {
    pub(super) policy: Box<dyn Policy>,
    piece_blocks: u64,
}

impl Border {
    /// Below a tier of `blocks` blocks.
    pub(super) fn new(kind: Kind, blocks: u64, cold_seconds: u32) -> Border {
        let piece_blocks = blocks.div_ceil(PIECES_OF_TIER).next_power_of_two().max(PIECE_BLOCKS_LEAST);
        let limits = Limits { pieces_max: PIECES_MAX, cold_ms: u64::from(cold_seconds) * 1000 };
        Border { policy: kind.begin(limits), piece_blocks }
    }

    /// The pieces that blocks of a file touch.
    pub(super) fn pieces(
        &self,
        inode: InodeNumber,
        blocks: &Range<u64>,
    ) -> impl Iterator<Item = Piece> + use<> {
        let pieces = blocks.start / self.piece_blocks..blocks.end.div_ceil(self.piece_blocks);
        pieces.map(move |index| Piece::new(inode, index))
    }

    /// The blocks of a piece.
    pub(super) fn blocks(&self, piece: Piece) -> Range<u64> {
        let start = piece.index.saturating_mul(self.piece_blocks);
        start..start.saturating_add(self.piece_blocks)
    }

    /// Chosen pieces as far as they move together, in the order of files.
    pub(super) fn batch(
        &mut self,
        mut choose: impl FnMut(&mut dyn Policy) -> Option<Choice>,
        blocks_most: u64,
    ) -> Vec<Choice> {
        let pieces_most = (blocks_most / self.piece_blocks).max(1) as usize;
        let choices = std::iter::from_fn(|| choose(self.policy.as_mut()));
        let mut chosen: Vec<Choice> = choices.take(pieces_most).collect();
        chosen.sort_unstable_by_key(|choice| choice.piece);
        chosen
    }

    /// The blocks of pieces of one file, in its order, neighbours as one.
    pub(super) fn ranges(&self, pieces: &[Choice]) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for blocks in pieces.iter().map(|choice| self.blocks(choice.piece)) {
            match ranges.last_mut().filter(|last| last.end == blocks.start) {
                Some(last) => last.end = blocks.end,
                None => ranges.push(blocks),
            }
        }
        ranges
    }
}

/// A time of a file as policies count it.
pub(super) fn moment(at: Timestamp) -> Moment {
    Moment(u64::try_from(at.0 / 1_000_000).unwrap_or(0))
}

/// On which side of the border below `upper` a tier lies; `None`: above both.
pub(super) fn side(upper: TierNumber, tier: TierNumber) -> Option<cuesta_placement::Side> {
    match tier.0.cmp(&upper.0) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(cuesta_placement::Side::Upper),
        std::cmp::Ordering::Greater => Some(cuesta_placement::Side::Lower),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_pieces_of_a_file_move_as_one() {
        let mut border = Border::new(Kind::Ziggurat, 1 << 10, 30);
        let choice = |index| Choice { piece: Piece::new(InodeNumber(7), index), score: 0.0, rule: "" };
        let mut chosen = [5, 1, 2, 9].map(choice).into_iter();
        let batch = border.batch(|_| chosen.next(), 3 * PIECE_BLOCKS_LEAST);
        assert_eq!(border.ranges(&batch), [16..48, 80..96]);
        assert_eq!(chosen.len(), 1, "the rest comes with the next batch");
        let touched = border.pieces(InodeNumber(7), &(15..33));
        assert_eq!(touched.map(|piece| piece.index).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn pieces_of_a_large_tier_are_longer() {
        let border = Border::new(Kind::Ziggurat, 1 << 28, 30);
        assert_eq!(border.blocks(Piece::new(InodeNumber(7), 1)), 1024..2048);
    }
}
