//! Policy: which inodes a lease is granted on beside the one a session asks for.
//!
//! A program that goes through a tree asks for one file after the other, and each question takes longer than all the
//! rest of a stat. Files made together have numbers near each other. So LibFS, once it sees that it asks for such
//! numbers, wants the whole block of numbers around the next one (`libfs::ahead`). It gets those that no other session is
//! interested in. Many programs pass through directories: only a program that goes through many files is granted them along, and
//! a session that gives up a block of files keeps the directories among them.

use cuesta_format::InodeNumber;
use cuesta_format::wire::{AHEAD_MAX, BESIDE_MAX};
use std::ops::Range;

/// A session that asks for so many numbers at once goes through a tree.
const TREE_NUMBERS: u64 = 128;

/// Bytes of a parcel, at most, that goes with an answer for which a thread waits.
pub(crate) const PARCEL_BYTES_MAX: usize = 1 << 20;

/// The inodes that are welcome along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// A block of inode numbers.
    pub(super) block: Range<u64>,
    /// Inodes outside of it.
    pub(super) beside: Vec<InodeNumber>,
    /// Whether directories of the block are welcome.
    pub(super) directories: bool,
    /// No more than about so many bytes are sent.
    pub(super) bytes_max: usize,
}

impl Ahead {
    /// The aligned block of `count` numbers `inode` lies in, if that is not more than anyone may ask for; and `beside`.
    pub(crate) fn of(inode: InodeNumber, count: u32, beside: &[InodeNumber]) -> Ahead {
        let mut block = 0..0;
        if count > 0 && count <= AHEAD_MAX {
            let first = inode.0 - inode.0 % u64::from(count);
            block = first..first.saturating_add(u64::from(count));
        }
        let beside = beside.iter().copied().take(BESIDE_MAX);
        let beside = beside.filter(|&it| it != inode && !block.contains(&it.0)).collect();
        let directories = block.end - block.start >= TREE_NUMBERS;
        Ahead { block, beside, directories, bytes_max: PARCEL_BYTES_MAX }
    }

    pub(crate) fn none() -> Ahead {
        Ahead { block: 0..0, beside: Vec::new(), directories: false, bytes_max: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_bounded() {
        let block = |inode, count| Ahead::of(InodeNumber(inode), count, &[]).block;
        assert_eq!(block(100, 16), 96..112);
        assert_eq!(block(u64::MAX, 512), u64::MAX - 511..u64::MAX);
        assert_eq!(block(100, 0), 0..0);
        assert_eq!(block(100, AHEAD_MAX + 1), 0..0);
    }

    #[test]
    fn a_named_inode_is_asked_for_once() {
        let named = [3, 100, 101, 5].map(InodeNumber);
        assert_eq!(Ahead::of(InodeNumber(100), 16, &named).beside, [3, 5].map(InodeNumber));
        let many = vec![InodeNumber(7); 2 * BESIDE_MAX];
        assert_eq!(Ahead::of(InodeNumber(100), 0, &many).beside.len(), BESIDE_MAX);
    }
}
