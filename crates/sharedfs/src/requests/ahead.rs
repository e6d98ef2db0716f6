//! Policy: which inodes a lease is granted on beside the one asked for.
//!
//! A program that goes through a tree asks for one file after the other, and each question takes longer than all the
//! rest of a stat. Files made together have numbers near each other; so LibFS, once it sees that it asks for such
//! numbers, wants the whole block of numbers around the next one (`libfs::ahead`), and gets what nobody else is
//! interested in. Directories are left out: they are few, bring all their names along, and many programs pass through
//! them.

use crate::Error;
use crate::metadata::{ExtentList, MetadataStore};
use cuesta_format::wire::AHEAD_MAX;
use cuesta_format::{FileKind, InodeNumber};
use std::ops::Range;

/// A block of inode numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead(Range<u64>);

impl Ahead {
    /// The aligned block of `count` numbers `inode` lies in; nothing if that is 0, or more than anyone may ask for.
    pub(crate) fn of(inode: InodeNumber, count: u32) -> Ahead {
        if count == 0 || count > AHEAD_MAX {
            return Ahead::none();
        }
        let first = inode.0 - inode.0 % u64::from(count);
        Ahead(first..first.saturating_add(u64::from(count)))
    }

    pub(crate) fn none() -> Ahead {
        Ahead(0..0)
    }

    /// The files and symbolic links there, as of the last commit; files in many pieces are left to a question of
    /// their own.
    pub(crate) fn candidates(&self, metadata: &MetadataStore) -> Result<Vec<InodeNumber>, Error> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let stored = metadata.read()?.inodes(self.0.clone())?;
        let small = stored.iter().filter(|stored| match stored.record.kind() {
            FileKind::File => matches!(stored.extents, ExtentList::Inline(_)),
            FileKind::Symlink => true,
            _ => false,
        });
        Ok(small.map(|stored| stored.record.inode).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_bounded() {
        assert_eq!(Ahead::of(InodeNumber(100), 16), Ahead(96..112));
        assert_eq!(Ahead::of(InodeNumber(u64::MAX), 512), Ahead(u64::MAX - 511..u64::MAX));
        assert_eq!(Ahead::of(InodeNumber(100), 0), Ahead::none());
        assert_eq!(Ahead::of(InodeNumber(100), AHEAD_MAX + 1), Ahead::none());
    }
}
