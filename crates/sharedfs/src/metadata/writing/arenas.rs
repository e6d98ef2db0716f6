//! Changes of what is kept of arenas.

use super::transaction::Transaction;
use cuesta_format::ArenaId;

impl Transaction {
    /// Sets an arena's bitmap.
    pub fn put_arena(&mut self, arena: ArenaId, bitmap: Vec<u8>) {
        self.arenas.insert(arena.0, Some(bitmap));
    }

    /// Takes out what is kept of an arena. Nothing lies in it.
    pub fn forget_arena(&mut self, arena: ArenaId) {
        self.arenas.insert(arena.0, None);
        self.bad.insert(arena.0, None);
        self.written_in.insert(arena.0, None);
    }

    /// Sets the bitmap of an arena's blocks that the medium does not take.
    pub fn put_bad_blocks(&mut self, arena: ArenaId, bitmap: Vec<u8>) {
        self.bad.insert(arena.0, Some(bitmap));
    }

    /// Notes in which opening of the store an arena was last written.
    pub fn put_written_in(&mut self, arena: ArenaId, generation: u64) {
        self.written_in.insert(arena.0, Some(generation));
    }
}
