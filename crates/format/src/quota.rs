//! What users have of a store, and may have: for quotas.

use serde::{Deserialize, Serialize};

/// Blocks and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// Blocks of file content ([`crate::BLOCK_BYTES`]).
    pub blocks: u64,
    /// Inodes, whatever their kind.
    pub inodes: u64,
}

impl Amounts {
    /// Nothing.
    pub const NONE: Amounts = Amounts { blocks: 0, inodes: 0 };
    /// More than there can be.
    pub const ENDLESS: Amounts = Amounts { blocks: u64::MAX, inodes: u64::MAX };

    /// Whether it is enough for `needed`.
    #[inline]
    #[must_use]
    pub fn covers(self, needed: Amounts) -> bool {
        self.blocks >= needed.blocks && self.inodes >= needed.inodes
    }

    /// Both together; what is endless stays so.
    #[must_use]
    pub fn plus(self, other: Amounts) -> Amounts {
        Amounts {
            blocks: self.blocks.saturating_add(other.blocks),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }

    /// What is left without `other`; what is endless stays so.
    #[must_use]
    pub fn minus(self, other: Amounts) -> Amounts {
        let minus = |left: u64, right| if left == u64::MAX { left } else { left.saturating_sub(right) };
        Amounts { blocks: minus(self.blocks, other.blocks), inodes: minus(self.inodes, other.inodes) }
    }
}

/// What a user owns, and may own at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserQuota {
    /// The user.
    pub uid: u32,
    /// What is in the shared area.
    pub used: Amounts,
    /// The most; 0 of something: no limit, as quotas of Linux have it.
    pub limits: Amounts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_add_up_and_the_endless_stays() {
        let few = Amounts { blocks: 3, inodes: 1 };
        assert_eq!(few.plus(few).minus(few), few);
        assert_eq!(few.minus(Amounts { blocks: 5, inodes: 1 }), Amounts::NONE);
        assert_eq!(
            (Amounts::ENDLESS.minus(few), Amounts::ENDLESS.plus(few)),
            (Amounts::ENDLESS, Amounts::ENDLESS)
        );
        assert!(few.covers(few) && !few.covers(Amounts { blocks: 0, inodes: 2 }));
    }
}
