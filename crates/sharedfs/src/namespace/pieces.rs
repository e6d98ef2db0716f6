//! Content that a batch stores in one file: writes and cuts in log order, resolved into the parts that remain.
//!
//! A cut (truncate) at `n` takes everything from `n` on. A later piece overtakes an earlier one where they overlap.
//! The usual log (appending, or one write a file) is in order already and needs no work. Otherwise one sweep goes
//! over the sorted starts, with the open pieces in a heap, newest first. It cuts each place out of the newest piece
//! there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A piece's effect on its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes at this place of the copied log.
    Log(u32),
    /// Bytes from this address on, in blocks that the session wrote to an arena.
    Staged(u64),
    /// Nothing lies here any more: it reads as zeros.
    Gone,
}

/// A part of a file, in bytes, and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
    /// Its content.
    pub content: Content,
}

impl Part {
    /// The part of it from `start` to `end`.
    pub(super) fn cut(&self, start: u64, end: u64) -> Part {
        let content = match self.content {
            Content::Log(at) => Content::Log(at + (start - self.start) as u32),
            Content::Staged(address) => Content::Staged(address + (start - self.start)),
            Content::Gone => Content::Gone,
        };
        Part { start, end, content }
    }
}

/// Resolves the pieces of one file after another, reusing its memory.
#[derive(Debug, Default)]
pub struct Resolver {
    pieces: Vec<Part>,
    order: Vec<u32>,
    open: BinaryHeap<(u32, Reverse<u64>)>,
    parts: Vec<Part>,
}

impl Resolver {
    /// The parts that remain of `pieces` (given in log order), in file order, without overlap. Neighbours are
    /// joined where their content is.
    pub fn resolve(&mut self, pieces: impl Iterator<Item = Part>) -> &[Part] {
        self.pieces.clear();
        self.pieces.extend(pieces.filter(|piece| piece.start < piece.end));
        self.parts.clear();
        if self.pieces.is_sorted_by(|left, right| left.end <= right.start) {
            self.parts.extend_from_slice(&self.pieces);
        } else {
            self.sweep();
        }
        &self.parts
    }

    fn sweep(&mut self) {
        let pieces = &self.pieces;
        self.order.clear();
        self.order.extend(0..pieces.len() as u32);
        self.order.sort_unstable_by_key(|&piece| pieces[piece as usize].start);
        self.open.clear();
        let mut next = 0;
        let mut at = 0;
        loop {
            while self.open.peek().is_some_and(|&(_, Reverse(end))| end <= at) {
                self.open.pop();
            }
            let upcoming = self.order.get(next).map(|&piece| pieces[piece as usize].start);
            match (self.open.peek(), upcoming) {
                (None, None) => break,
                (_, Some(start)) if start <= at => {
                    let piece = self.order[next];
                    self.open.push((piece, Reverse(pieces[piece as usize].end)));
                    next += 1;
                }
                (None, Some(start)) => at = start,
                (Some(&(piece, Reverse(end))), upcoming) => {
                    let end = upcoming.map_or(end, |start| start.min(end));
                    let part = pieces[piece as usize].cut(at, end);
                    match self.parts.last_mut() {
                        Some(last) if joins(last, &part) => last.end = end,
                        _ => self.parts.push(part),
                    }
                    at = end;
                }
            }
        }
    }
}

fn joins(left: &Part, right: &Part) -> bool {
    left.end == right.start
        && match (left.content, right.content) {
            (Content::Gone, Content::Gone) => true,
            (Content::Log(left_at), Content::Log(right_at)) => {
                u64::from(left_at) + (left.end - left.start) == u64::from(right_at)
            }
            // Neighbours in arenas may be of two arenas: each stays as its entry named it.
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_pieces_pass_unchanged() {
        let piece = |start, end, at| Part { start, end, content: Content::Log(at) };
        let pieces = [piece(0, 100, 64), piece(100, 200, 256), piece(500, 600, 512)];
        assert_eq!(Resolver::default().resolve(pieces.into_iter()), pieces);
    }

    #[test]
    fn an_overwritten_piece_leaves_its_ends() {
        let piece = |start, end, at| Part { start, end, content: Content::Log(at) };
        let pieces = [piece(0, 100, 1000), piece(20, 40, 5000)];
        let parts = [piece(0, 20, 1000), piece(20, 40, 5000), piece(40, 100, 1040)];
        assert_eq!(Resolver::default().resolve(pieces.into_iter()), parts);
    }

    #[test]
    fn it_agrees_with_painting_bytes() {
        let seed = 11;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut resolver = Resolver::default();
        for round in 0..500 {
            let mut painted = vec![None; 300];
            let mut pieces = Vec::new();
            let mut at = 0;
            for _ in 0..random.usize(0..12) {
                let start = random.usize(0..200);
                let (end, content) = if random.u8(0..4) == 0 {
                    (usize::MAX, Content::Gone)
                } else {
                    let end = start + random.usize(0..100);
                    let content = match random.bool() {
                        true => Content::Log(at),
                        false => Content::Staged(u64::from(at)),
                    };
                    at += 64 + (end - start) as u32;
                    (end, content)
                };
                for (place, byte) in painted.iter_mut().enumerate().take(end).skip(start) {
                    *byte = Some(match content {
                        Content::Log(at) => Content::Log(at + (place - start) as u32),
                        Content::Staged(at) => Content::Staged(at + (place - start) as u64),
                        Content::Gone => Content::Gone,
                    });
                }
                pieces.push(Part { start: start as u64, end: end as u64, content });
            }
            let mut resolved = vec![None; 300];
            let mut end = 0;
            for part in resolver.resolve(pieces.into_iter()) {
                assert!(part.start >= end && part.start < part.end, "seed {seed}, round {round}");
                end = part.end;
                for place in part.start..part.end.min(300) {
                    resolved[place as usize] = Some(part.cut(place, place + 1).content);
                }
            }
            assert_eq!(resolved, painted, "seed {seed}, round {round}");
        }
    }
}
