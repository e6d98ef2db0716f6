//! A trace as uses of pieces: each request is cut at the borders of pieces, and pieces get numbers from 0 on.

use crate::error::BenchError;
use crate::replay::traces::trace::{Op, Trace};
use cuesta_format::{BLOCK_BYTES, InodeNumber};
use cuesta_placement::Piece;
use std::collections::BTreeMap;
use std::ops::Range;

/// A longer trace would not fit the memory of a usual machine.
const USES_MAX: usize = 100_000_000;

/// The number of a piece.
pub type PieceId = u32;

/// Blocks of a piece, one bit each.
pub type Blocks = u64;

/// What happens to a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Read,
    Write,
    /// These blocks are no more.
    Gone,
}

/// A request, as far as it concerns one piece.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    pub at_us: u64,
    pub blocks: Blocks,
    pub piece: PieceId,
    pub bytes: u32,
    pub what: What,
    /// It is the first of its request.
    pub begins: bool,
}

/// All uses of all pieces.
#[derive(Debug, Default)]
pub struct Uses {
    pub uses: Vec<Use>,
    pub pieces: Vec<Piece>,
    /// The blocks of each piece that are there before the trace begins.
    pub before: Vec<Blocks>,
    pub piece_bytes: u64,
    /// So many pieces are there at once at most.
    pub footprint: u64,
}

/// The pieces of one file.
type File = BTreeMap<u64, PieceId>;

struct Cutter {
    uses: Uses,
    files: Vec<File>,
    blocks_in_piece: u64,
}

impl Uses {
    /// Cuts a trace into uses of pieces of `piece_bytes`, at most 256 KiB.
    pub fn cut(trace: &Trace, piece_bytes: u64) -> Result<Uses, BenchError> {
        let mut cutter = Cutter {
            uses: Uses { piece_bytes, ..Uses::default() },
            files: vec![File::new(); trace.files as usize],
            blocks_in_piece: piece_bytes / BLOCK_BYTES,
        };
        for access in &trace.accesses {
            let bytes = access.offset..access.offset + access.bytes;
            match access.op {
                Op::Read => cutter.request(access.at_us, What::Read, access.file.0, bytes),
                Op::Write => cutter.request(access.at_us, What::Write, access.file.0, bytes),
                Op::Discard => cutter.discard(access.at_us, access.file.0, bytes),
            }
            if cutter.uses.uses.len() > USES_MAX {
                let name = &trace.name;
                return Err(BenchError::Unusable(format!("{name}: more than {USES_MAX} uses of pieces")));
            }
        }
        let mut uses = cutter.uses;
        uses.footprint = uses.most_at_once();
        Ok(uses)
    }

    /// How long the trace is, in microseconds.
    pub fn end_us(&self) -> u64 {
        self.uses.last().map_or(0, |last| last.at_us)
    }

    fn most_at_once(&self) -> u64 {
        let mut live = self.before.clone();
        let mut now = live.iter().filter(|&&blocks| blocks != 0).count() as u64;
        let mut most = now;
        for next in &self.uses {
            let blocks = &mut live[next.piece as usize];
            let was = *blocks != 0;
            match next.what {
                What::Gone => *blocks &= !next.blocks,
                What::Read | What::Write => *blocks |= next.blocks,
            }
            let is = *blocks != 0;
            now = now + u64::from(is) - u64::from(was);
            most = most.max(now);
        }
        most
    }
}

fn whole(blocks: u64) -> Blocks {
    Blocks::MAX >> (u64::from(Blocks::BITS) - blocks)
}

impl Cutter {
    fn request(&mut self, at_us: u64, what: What, file: u32, bytes: Range<u64>) {
        let piece_bytes = self.uses.piece_bytes;
        let mut begins = true;
        let mut at = bytes.start;
        while at < bytes.end {
            let index = at / piece_bytes;
            let start = index * piece_bytes;
            let end = bytes.end.min(start.saturating_add(piece_bytes));
            let first = (at - start) / BLOCK_BYTES;
            let last = (end - 1 - start) / BLOCK_BYTES;
            let blocks = whole(last + 1) & !(whole(first + 1) >> 1);
            let piece = self.piece(file, index, what);
            let bytes = (end - at) as u32;
            self.uses.uses.push(Use { at_us, blocks, piece, bytes, what, begins });
            begins = false;
            at = end;
        }
    }

    fn piece(&mut self, file: u32, index: u64, what: What) -> PieceId {
        let uses = &mut self.uses;
        *self.files[file as usize].entry(index).or_insert_with(|| {
            // A piece that is read first was there before. So all of it was.
            let before = if what == What::Read { whole(self.blocks_in_piece) } else { 0 };
            uses.before.push(before);
            uses.pieces.push(Piece::new(InodeNumber(u64::from(file)), index));
            (uses.pieces.len() - 1) as PieceId
        })
    }

    /// Only whole blocks are gone.
    fn discard(&mut self, at_us: u64, file: u32, bytes: Range<u64>) {
        let piece_bytes = self.uses.piece_bytes;
        let (first, end) = (bytes.start.div_ceil(BLOCK_BYTES), bytes.end / BLOCK_BYTES);
        let end = if bytes.end == u64::MAX { u64::MAX } else { end };
        if first >= end {
            return;
        }
        let blocks_in_piece = self.blocks_in_piece;
        let known = self.files[file as usize].range(first / blocks_in_piece..=(end - 1) / blocks_in_piece);
        for (&index, &piece) in known {
            let start = index * blocks_in_piece;
            let from = first.saturating_sub(start);
            let to = (end - start).min(blocks_in_piece);
            let blocks = whole(to) & !(whole(from + 1) >> 1);
            let (what, bytes) = (What::Gone, piece_bytes as u32);
            self.uses.uses.push(Use { at_us, blocks, piece, bytes, what, begins: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::traces::trace::TraceBuilder;

    const PIECE: u64 = 16 * BLOCK_BYTES;

    fn cut(requests: &[(Op, u64, u64)]) -> Uses {
        let mut trace = TraceBuilder::default();
        let file = trace.file("a");
        for (at, &(op, offset, bytes)) in requests.iter().enumerate() {
            match op {
                Op::Discard => trace.discard(at as u64, file, offset, Some(bytes)),
                _ => trace.request(at as u64, op, file, offset, bytes).unwrap(),
            }
        }
        Uses::cut(&trace.finish("test"), PIECE).unwrap()
    }

    fn seen(uses: &Uses) -> Vec<(u64, u64, u32)> {
        uses.uses
            .iter()
            .map(|next| (uses.pieces[next.piece as usize].index, next.blocks, next.bytes))
            .collect()
    }

    #[test]
    fn a_request_is_cut_at_the_borders_of_pieces() {
        let uses = cut(&[(Op::Read, PIECE - 5000, 5000 + PIECE + 1)]);
        assert_eq!(seen(&uses), [(0, 0xc000, 5000), (1, 0xffff, PIECE as u32), (2, 1, 1)]);
        assert_eq!(uses.uses.iter().filter(|next| next.begins).count(), 1);
        assert_eq!((uses.before.clone(), uses.footprint), (vec![0xffff; 3], 3));
        let last = cut(&[(Op::Read, u64::MAX - 2, 2)]);
        assert_eq!(seen(&last), [(u64::MAX / PIECE, 0x8000, 2)]);
    }

    #[test]
    fn only_whole_blocks_of_known_pieces_are_discarded() {
        let block = BLOCK_BYTES;
        let uses = cut(&[
            (Op::Write, 0, 4 * block),
            (Op::Write, 9 * PIECE, PIECE),
            (Op::Discard, block - 1, 2 * block),
            (Op::Discard, 2 * block, u64::MAX),
        ]);
        let gone: Vec<_> = seen(&uses).split_off(2);
        assert_eq!(
            gone.iter().map(|&(index, blocks, _)| (index, blocks)).collect::<Vec<_>>(),
            [(0, 0b10), (0, 0xfffc), (9, 0xffff)]
        );
        assert_eq!((uses.before, uses.footprint), (vec![0, 0], 2));
    }
}
