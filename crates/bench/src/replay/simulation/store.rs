//! A store of two tiers, without content: where the blocks of each piece lie.
//!
//! Each block has one home. A block whose home is below may have a copy above. Room is counted in blocks.

use super::uses::{Blocks, PieceId, Uses};
use cuesta_format::BLOCK_BYTES;
use cuesta_placement::Side;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    live: Blocks,
    /// Blocks whose home is the fast tier,
    fast: Blocks,
    /// and those that have a copy there.
    copies: Blocks,
    /// Blocks that came to be in the fast tier, as programs wrote them.
    written_fast: Blocks,
}

/// Bytes that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub down: u64,
    pub up: u64,
    /// Copies that were dropped.
    pub dropped: u64,
    /// Writes that found the fast tier full.
    pub written_through: u64,
}

/// How full the fast tier is, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Those that have their homes there,
    pub homes: u64,
    /// these and the copies,
    pub used: u64,
    /// and the room for all.
    pub capacity: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Store {
    pieces: Vec<State>,
    capacity: u64,
    used: u64,
    /// Of these, blocks that have their homes above.
    homes: u64,
    pub moved: Moved,
}

impl Store {
    /// A store with room for `capacity` blocks above. Content that is there before the trace begins lies below.
    pub fn new(uses: &Uses, capacity: u64) -> Store {
        let pieces = uses.before.iter().map(|&live| State { live, ..State::default() }).collect();
        Store { pieces, capacity, used: 0, homes: 0, moved: Moved::default() }
    }

    /// How full the fast tier is.
    pub fn usage(&self) -> Usage {
        Usage { homes: self.homes, used: self.used, capacity: self.capacity }
    }

    /// Changes a piece, and counts it.
    fn change<T>(&mut self, piece: PieceId, change: impl FnOnce(&mut State) -> T) -> T {
        let state = &mut self.pieces[piece as usize];
        self.used -= count(state.fast | state.copies);
        self.homes -= count(state.fast);
        let changed = change(state);
        self.used += count(state.fast | state.copies);
        self.homes += count(state.fast);
        changed
    }

    /// The side of a piece that some of it lies on.
    pub fn side(&self, piece: PieceId) -> Side {
        if self.pieces[piece as usize].is_above() { Side::Upper } else { Side::Lower }
    }

    /// Whether a block of the piece has its home above.
    pub fn has_home_above(&self, piece: PieceId) -> bool {
        self.pieces[piece as usize].fast != 0
    }

    /// Whether any of the piece is there.
    pub fn is_live(&self, piece: PieceId) -> bool {
        self.pieces[piece as usize].live != 0
    }

    /// How many of the blocks lie below, and have to be waited for.
    pub fn read(&mut self, piece: PieceId, blocks: Blocks) -> u32 {
        let state = &mut self.pieces[piece as usize];
        // A hole that is read was content before the trace began.
        state.live |= blocks;
        (blocks & !(state.fast | state.copies)).count_ones()
    }

    /// Blocks are written: to the fast tier, if that has room for the piece.
    pub fn write(&mut self, piece: PieceId, blocks: Blocks) -> Side {
        let room = self.capacity - self.used;
        let side = self.change(piece, |state| {
            state.live |= blocks;
            if count(blocks & !(state.fast | state.copies)) > room {
                state.fast &= !blocks;
                state.copies &= !blocks;
                state.written_fast &= !blocks;
                return Side::Lower;
            }
            state.fast |= blocks;
            state.written_fast |= blocks;
            state.copies &= !blocks;
            Side::Upper
        });
        if side == Side::Lower {
            self.moved.written_through += bytes(blocks);
        }
        side
    }

    /// Blocks are no more. Says whether nothing of the piece is left.
    pub fn discard(&mut self, piece: PieceId, blocks: Blocks) -> bool {
        self.change(piece, |state| {
            for mask in [&mut state.live, &mut state.fast, &mut state.copies, &mut state.written_fast] {
                *mask &= !blocks;
            }
            state.live == 0
        })
    }

    /// The piece leaves the fast tier. Says how many bytes moved; copies are dropped.
    pub fn demote(&mut self, piece: PieceId) -> u64 {
        let (moved, dropped) = self.change(piece, |state| {
            let all = (bytes(state.fast), bytes(state.copies));
            (state.fast, state.copies) = (0, 0);
            all
        });
        self.moved.down += moved;
        self.moved.dropped += dropped;
        moved
    }

    /// The blocks of the piece that lie below are copied to the fast tier. Says how many bytes moved; `None`: there is no room.
    pub fn promote(&mut self, piece: PieceId) -> Option<u64> {
        let room = self.capacity - self.used;
        let copied = self.change(piece, |state| {
            let missing = state.live & !(state.fast | state.copies);
            if count(missing) > room {
                return None;
            }
            state.copies |= missing;
            Some(bytes(missing))
        });
        self.moved.up += copied.unwrap_or(0);
        copied
    }

    /// All pieces of which some lies above.
    pub fn above(&self) -> impl Iterator<Item = PieceId> {
        let above = self.pieces.iter().enumerate().filter(|(_, state)| state.is_above());
        above.map(|(piece, _)| piece as PieceId)
    }

    /// Bytes that lie on another side than where they were written, or were before the trace.
    pub fn bytes_elsewhere(&self) -> u64 {
        self.pieces.iter().map(|state| bytes((state.fast | state.copies) ^ state.written_fast)).sum()
    }
}

impl State {
    fn is_above(&self) -> bool {
        self.fast | self.copies != 0
    }
}

fn count(blocks: Blocks) -> u64 {
    u64::from(blocks.count_ones())
}

fn bytes(blocks: Blocks) -> u64 {
    count(blocks) * BLOCK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// Three pieces of four blocks; the third one was there before.
    fn store(capacity: u64) -> Store {
        let uses = Uses { before: vec![0, 0, 0xf], ..Uses::default() };
        Store::new(&uses, capacity)
    }

    fn usage(homes: u64, used: u64, capacity: u64) -> Usage {
        Usage { homes, used, capacity }
    }

    #[test]
    fn a_full_fast_tier_writes_through() {
        let mut store = store(5);
        assert_eq!([store.write(0, 0xf), store.write(1, 0b11)], [Side::Upper, Side::Lower]);
        assert_eq!(store.write(0, 1), Side::Upper, "it has its room");
        assert_eq!((store.moved.written_through, store.usage()), (8 * KIB, usage(4, 4, 5)));
        assert_eq!([store.read(0, 0xf), store.read(1, 0b11)], [0, 2]);
        assert_eq!(store.write(1, 0b1), Side::Upper, "for one block there is room");
    }

    #[test]
    fn a_copy_is_dropped_free_and_a_write_replaces_its_block() {
        let mut store = store(8);
        assert_eq!(store.promote(2), Some(16 * KIB));
        assert_eq!((store.read(2, 0xf), store.bytes_elsewhere()), (0, 16 * KIB));
        assert_eq!(store.usage(), usage(0, 4, 8));
        assert_eq!(store.write(2, 0b1), Side::Upper);
        assert_eq!(store.usage(), usage(1, 4, 8));
        assert_eq!(store.demote(2), 4 * KIB);
        let moved = Moved { down: 4 * KIB, up: 16 * KIB, dropped: 12 * KIB, written_through: 0 };
        assert_eq!((store.moved, store.usage(), store.bytes_elsewhere()), (moved, usage(0, 0, 8), 4 * KIB));
    }

    #[test]
    fn a_write_of_a_part_leaves_the_rest_below() {
        let mut store = store(4);
        store.write(2, 0b1);
        assert_eq!((store.side(2), store.read(2, 0b11)), (Side::Upper, 1));
        assert_eq!(store.promote(2), Some(12 * KIB));
        assert_eq!(store.read(2, 0b11), 0);
    }

    #[test]
    fn removed_content_leaves_its_room() {
        let mut store = store(4);
        store.write(0, 0xf);
        assert!(!store.discard(0, 0b11));
        assert_eq!((store.usage(), store.promote(2)), (usage(2, 2, 4), None));
        assert!(store.discard(0, 0b1100));
        assert_eq!((store.usage(), store.above().count()), (usage(0, 0, 4), 0));
    }
}
