//! Blocks that say what they are: filler, with a number in the first eight bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::error::{BenchError, Context};

/// A block to write again and again, each time under another number.
pub struct Stamped(Vec<u8>);

impl Stamped {
    /// A block of `size` bytes, at least eight.
    pub fn new(size: u64) -> Self {
        assert!(size >= 8, "a block holds its number");
        Stamped((0..size).map(|i| (i * 31 + 7) as u8).collect())
    }

    /// The block under the number `stamp`.
    pub fn with(&mut self, stamp: u64) -> &[u8] {
        self.0[..8].copy_from_slice(&stamp.to_le_bytes());
        &self.0
    }
}

/// Checks that `file` holds exactly `blocks` blocks of `size` bytes, block n under the number `stamp_of(n)`.
pub fn verify_blocks(
    file: &File,
    size: u64,
    blocks: u64,
    stamp_of: impl Fn(u64) -> u64,
) -> Result<(), BenchError> {
    let length = file.metadata().context("stat before reading back")?.len();
    if length != blocks * size {
        return Err(BenchError::Corrupt(format!("{length} bytes instead of {blocks} blocks of {size}")));
    }
    let mut wanted = Stamped::new(size);
    let blocks_per_read = ((1 << 20) / size).max(1);
    let mut buffer = Vec::new();
    let mut left = blocks;
    for block in 0..blocks {
        let within = block % blocks_per_read;
        if within == 0 {
            let count = left.min(blocks_per_read);
            buffer.resize((count * size) as usize, 0);
            file.read_exact_at(&mut buffer, block * size).context("reading back")?;
            left -= count;
        }
        let found = &buffer[(within * size) as usize..][..size as usize];
        let stamp = stamp_of(block);
        if found != wanted.with(stamp) {
            return Err(BenchError::Corrupt(format!("block {block} of {size} bytes is not number {stamp}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_a_wrong_byte_and_a_wrong_length_are_seen() {
        let file = tempfile::tempfile().unwrap();
        let mut block = Stamped::new(128);
        for stamp in 0..10_000 {
            file.write_all_at(block.with(stamp), stamp * 128).unwrap();
        }
        verify_blocks(&file, 128, 10_000, |n| n).unwrap();
        assert!(verify_blocks(&file, 128, 9_999, |n| n).is_err());
        assert!(verify_blocks(&file, 128, 10_000, |n| n + 1).is_err());
        file.write_all_at(&[0xff], 9_999 * 128 + 127).unwrap();
        assert!(verify_blocks(&file, 128, 10_000, |n| n).is_err());
    }
}
