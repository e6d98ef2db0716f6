//! Bitmaps of blocks, put into the transaction that takes or frees the blocks.

use crate::Error;
use crate::metadata::Transaction;
use crate::tiers::{Allocator, Reservation};

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
