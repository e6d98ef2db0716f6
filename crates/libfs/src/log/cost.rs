//! The most blocks that an entry may cost. They are debited before it is appended (docs/semantics.md, Guarantees).

use cuesta_format::BLOCK_BYTES;
use std::ops::Range;

/// A truncation may have to copy the block that it cuts. At a block boundary it costs nothing, so it works on
/// a full store.
pub(crate) fn of_truncation(size: u64) -> u64 {
    u64::from(!size.is_multiple_of(BLOCK_BYTES))
}

/// A cleared range may begin and end inside blocks, and the rest of such a block is copied.
pub(crate) fn of_clearing(range: &Range<u64>) -> u64 {
    let (first, last) = (range.start / BLOCK_BYTES, range.end / BLOCK_BYTES);
    let starts_inside = !range.start.is_multiple_of(BLOCK_BYTES);
    let ends_inside = !range.end.is_multiple_of(BLOCK_BYTES);
    u64::from(starts_inside) + u64::from(ends_inside && !(starts_inside && first == last))
}

/// A write of `bytes` at `offset` writes every block anew that it touches.
#[inline]
pub(crate) fn of_write(offset: u64, bytes: u64) -> u64 {
    (offset % BLOCK_BYTES + bytes).div_ceil(BLOCK_BYTES)
}

/// The cost of a write whose offset is not known yet.
#[inline]
pub(crate) fn of_append(bytes: u64) -> u64 {
    of_write(BLOCK_BYTES - 1, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_touched_block_counts() {
        assert_eq!((of_truncation(8192), of_truncation(1)), (0, 1));
        assert_eq!((of_clearing(&(0..8192)), of_clearing(&(1..8191))), (0, 2));
        assert_eq!((of_clearing(&(5..9)), of_clearing(&(0..9)), of_clearing(&(4095..8192))), (1, 1, 1));
        assert_eq!(of_write(0, 4096), 1);
        assert_eq!(of_write(1, 4096), 2);
        assert_eq!(of_write(4095, 2), 2);
        assert_eq!(of_append(1), 1);
        assert_eq!(of_append(4096), 2);
    }
}
