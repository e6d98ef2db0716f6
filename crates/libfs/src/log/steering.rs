//! Policy: whether the payload of a write goes into the log, or straight into blocks where it stays.
//!
//! A staged write is written once. The log's payload is written twice: into the log, and by the digest. But a staged
//! block is a fresh one, so small overwrites by this way would break a file into fragments, and the whole blocks of a
//! short write are not worth a call to the kernel.

use cuesta_format::BLOCK_BYTES;

/// Whole blocks from which on a write that adds to a file is staged: 64 KiB.
const ADDED_BLOCKS_LEAST: u64 = (64 << 10) / BLOCK_BYTES;
/// Whole blocks from which on a write over content is staged: 128 KiB.
const OVERWRITTEN_BLOCKS_LEAST: u64 = (128 << 10) / BLOCK_BYTES;

/// Where payload goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Into the log.
    Log,
    /// Into blocks of a window; only the entry goes into the log.
    Staged,
}

/// Whether a write of so many bytes can be staged at all.
#[inline]
pub(crate) fn is_large(bytes: usize) -> bool {
    bytes as u64 >= ADDED_BLOCKS_LEAST * BLOCK_BYTES
}

/// The destination of a write with so many whole blocks. `overwrites`: some of them hold content.
pub(crate) fn destination(whole_blocks: u64, overwrites: bool) -> Destination {
    let least = if overwrites { OVERWRITTEN_BLOCKS_LEAST } else { ADDED_BLOCKS_LEAST };
    if whole_blocks >= least { Destination::Staged } else { Destination::Log }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_writes_are_staged_and_overwrites_only_if_they_are_larger() {
        assert!(is_large(64 << 10) && !is_large((64 << 10) - 1));
        assert_eq!(
            [15, 16].map(|blocks| destination(blocks, false)),
            [Destination::Log, Destination::Staged]
        );
        assert_eq!([31, 32].map(|blocks| destination(blocks, true)), [Destination::Log, Destination::Staged]);
    }
}
