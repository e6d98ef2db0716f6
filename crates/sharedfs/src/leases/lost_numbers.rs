//! Numbers granted to a session whose inodes are not its own any more: one bit each.
//!
//! An inode that a session makes with its numbers is its own without an entry, until it gives it back or loses it.
//! A session that makes a million files for others to look at loses as many.

use super::blocks::{NUMBERS, place};
use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use std::ops::Range;

/// The numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct LostNumbers {
    blocks: HashMap<u64, u64>,
}

impl LostNumbers {
    /// Whether the session that was granted its number has lost the inode.
    pub(super) fn contains(&self, inode: InodeNumber) -> bool {
        let (block, bit) = place(inode);
        self.blocks.get(&block).is_some_and(|numbers| numbers & bit != 0)
    }

    /// It is from now on.
    pub(super) fn insert(&mut self, inode: InodeNumber) {
        let (block, bit) = place(inode);
        *self.blocks.entry(block).or_default() |= bit;
    }

    /// No session has these numbers any more.
    pub(super) fn forget(&mut self, numbers: Range<u64>) {
        if numbers.is_empty() || self.blocks.is_empty() {
            return;
        }
        let (first, last) = (numbers.start / NUMBERS, (numbers.end - 1) / NUMBERS);
        for block in first..=last {
            let Some(lost) = self.blocks.get_mut(&block) else { continue };
            let from_start = u64::MAX << numbers.start.saturating_sub(block * NUMBERS);
            let to_end = if block == last {
                u64::MAX >> (NUMBERS - 1 - (numbers.end - 1) % NUMBERS)
            } else {
                u64::MAX
            };
            *lost &= !(from_start & to_end);
            if *lost == 0 {
                self.blocks.remove(&block);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_forgotten_to_the_number() {
        for (start, end) in [(64, 128), (65, 127), (70, 71), (3, 300), (64, 64), (127, 129)] {
            let mut lost = LostNumbers::default();
            (0..320).for_each(|number| lost.insert(InodeNumber(number)));
            lost.forget(start..end);
            let left: Vec<_> = (0..320).filter(|&number| lost.contains(InodeNumber(number))).collect();
            assert_eq!(left, (0..320).filter(|number| !(start..end).contains(number)).collect::<Vec<_>>());
        }
        let mut lost = LostNumbers::default();
        lost.insert(InodeNumber(70));
        lost.forget(70..71);
        assert!(lost.is_empty());
    }
}
