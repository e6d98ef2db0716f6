//! Bitmaps of blocks, put into the transaction that takes or frees the blocks; and in which opening their arenas were written.

use crate::Error;
use crate::metadata::Transaction;
use crate::tiers::{Allocator, Arenas, Reservation};

/// Applies a reservation to the bitmaps, in memory and in the transaction, which also gets blocks set aside since the last.
pub(crate) fn put_bitmaps(
    transaction: &mut Transaction,
    allocator: &mut Allocator,
    reservation: &Reservation,
) -> Result<(), Error> {
    let changed = allocator.stage(reservation);
    let changed = changed.map_err(|at| Error::Damaged(format!("blocks at {at} are freed but not in use")))?;
    for arena in changed {
        let mut bitmap = Vec::new();
        allocator.bitmap_bytes(arena, &mut bitmap);
        transaction.put_arena(arena, bitmap);
    }
    for (arena, bitmap) in allocator.new_bad_blocks() {
        transaction.put_bad_blocks(arena, bitmap);
    }
    Ok(())
}

/// Notes in the transaction the arenas that were written for the first time in this opening of the store.
pub(crate) fn put_stamps(transaction: &mut Transaction, arenas: &Arenas) {
    for stamps in arenas.stamps() {
        let (stamped, generation) = stamps.take_new();
        stamped.into_iter().for_each(|arena| transaction.put_written_in(arena, generation));
    }
}
