//! What moves, where it lies, and when things happen.

use cuesta_format::InodeNumber;

/// A piece of a file: some adjacent blocks that count as one. The owner of a policy chooses how many; all pieces have the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Piece {
    /// The file.
    pub inode: InodeNumber,
    /// Which piece of it, from 0 on.
    pub index: u64,
}

impl Piece {
    /// One piece of a file.
    #[must_use]
    pub fn new(inode: InodeNumber, index: u64) -> Piece {
        Piece { inode, index }
    }
}

/// Milliseconds since some moment that is the same for all calls of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    /// How many milliseconds lie between an earlier moment and this one; 0 if that one is later.
    #[must_use]
    pub fn since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// On which side of a policy a piece lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The faster tier, which is short.
    Upper,
    /// Any slower one.
    Lower,
}
