//! What a session read lately, as far as it tells: a ring behind the slots of its client page, for the temperature of content.
//!
//! The session writes an entry for one of [`ONE_OF`] reads, over the oldest one, and then counts it in
//! `ClientPage::seen_reads`. Two threads may write one entry at a time, and SharedFS may read one
//! that is half written: an entry may lie, and what it says is only ever counted.

use crate::{BlockAddress, InodeNumber, TierNumber};

/// Entries of the ring.
pub const SEEN_READS: usize = 1 << 10;

/// Bytes of the ring. Each entry is two words.
pub const SEEN_READS_BYTES: usize = SEEN_READS * 2 * size_of::<u64>();

/// So many reads are one entry.
pub const ONE_OF: u32 = 8;

const BLOCKS_BITS: u32 = 16;
const TIER_BITS: u32 = 8;

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenRead {
    /// The file.
    pub inode: InodeNumber,
    /// The first block of it.
    pub block: u64,
    /// How many; of a long read only so many as there is room for.
    pub blocks: u16,
    /// Where the first one lay.
    pub tier: TierNumber,
}

impl SeenRead {
    /// Of a read of some blocks, the first of which lay there.
    #[must_use]
    pub fn new(inode: InodeNumber, block: u64, blocks: u64, first: BlockAddress) -> SeenRead {
        SeenRead { inode, block, blocks: u16::try_from(blocks).unwrap_or(u16::MAX), tier: first.tier() }
    }

    /// The two words of the entry.
    #[must_use]
    pub fn words(self) -> [u64; 2] {
        let low = u64::from(self.tier.0) << BLOCKS_BITS | u64::from(self.blocks);
        [self.inode.0, self.block << (BLOCKS_BITS + TIER_BITS) | low]
    }

    /// What two words say.
    #[must_use]
    pub fn of([inode, said]: [u64; 2]) -> SeenRead {
        SeenRead {
            inode: InodeNumber(inode),
            block: said >> (BLOCKS_BITS + TIER_BITS),
            blocks: said as u16,
            tier: TierNumber((said >> BLOCKS_BITS) as u8),
        }
    }
}

/// Whether the operation of this number is one of those that are told, which no pattern of a program's reads can know.
#[must_use]
#[inline]
pub fn is_told(operation: u64) -> bool {
    operation.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & u64::from(ONE_OF - 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_what_was_read() {
        for (block, blocks, tier) in [(0, 1, 0), (77, 16, 1), ((1 << 40) - 1, 65_535, 255)] {
            let read = SeenRead { inode: InodeNumber(u64::MAX), block, blocks, tier: TierNumber(tier) };
            assert_eq!(SeenRead::of(read.words()), read);
        }
    }

    #[test]
    fn one_of_eight_is_told_and_of_every_other_one_as_well() {
        for step in [1, 2, 4, 8, 3] {
            let told = (0..80_000_u64).filter(|number| is_told(number * step)).count();
            assert!((8_000..12_000).contains(&told), "{told} of step {step}");
        }
    }
}
