//! What users, groups and directories have of a store, and may have: for quotas.

use crate::{InodeNumber, Timestamp};
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

    /// Both together; an endless amount stays endless.
    #[must_use]
    pub fn plus(self, other: Amounts) -> Amounts {
        Amounts {
            blocks: self.blocks.saturating_add(other.blocks),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }

    /// The rest without `other`; an endless amount stays endless.
    #[must_use]
    pub fn minus(self, other: Amounts) -> Amounts {
        let minus = |left: u64, right| if left == u64::MAX { left } else { left.saturating_sub(right) };
        Amounts { blocks: minus(self.blocks, other.blocks), inodes: minus(self.inodes, other.inodes) }
    }
}

/// How long an owner may be over a soft limit by default: a week, as quotas of Linux have it.
pub const GRACE_SECONDS: u64 = 7 * 24 * 60 * 60;

/// The most that an owner may have; 0 of something: no limit, as quotas of Linux have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Never more than this.
    pub hard: Amounts,
    /// More than this for a time only.
    pub soft: Amounts,
    /// That time; 0: none.
    pub grace_seconds: u64,
}

impl Limits {
    /// None at all.
    pub const NONE: Limits = Limits::hard(Amounts::NONE);

    /// Limits that no owner exceeds.
    #[must_use]
    pub const fn hard(hard: Amounts) -> Limits {
        Limits { hard, soft: Amounts::NONE, grace_seconds: GRACE_SECONDS }
    }

    /// Whether they limit nothing.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.hard == Amounts::NONE && self.soft == Amounts::NONE
    }

    /// The most that an owner can have for longer than the grace.
    #[must_use]
    pub fn lasting(&self) -> Amounts {
        let of = |soft: u64, hard: u64| match (soft, hard) {
            (0, most) | (most, 0) => most,
            (soft, hard) => soft.min(hard),
        };
        Amounts {
            blocks: of(self.soft.blocks, self.hard.blocks),
            inodes: of(self.soft.inodes, self.hard.inodes),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::NONE
    }
}

/// Since when an owner has more than a soft limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverSince {
    /// Of blocks.
    pub blocks: Option<Timestamp>,
    /// Of inodes.
    pub inodes: Option<Timestamp>,
}

/// Limits, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// The limits that were set.
    pub limits: Limits,
    /// When the owner came over a soft limit.
    pub over_since: OverSince,
}

/// The payers for an inode and its blocks: its owner, its group, and the quota's directory it lies in
/// ([`crate::InodeRecord::tree`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Payer {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
    /// A directory with all that lies below it.
    Tree(InodeNumber),
}

impl Payer {
    /// As the metadata store has it.
    #[must_use]
    pub fn key(self) -> (u8, u64) {
        match self {
            Payer::User(uid) => (1, uid.into()),
            Payer::Group(gid) => (2, gid.into()),
            Payer::Tree(tree) => (3, tree.0),
        }
    }

    /// From what the metadata store has.
    #[must_use]
    pub fn from_key((kind, number): (u8, u64)) -> Option<Payer> {
        match kind {
            1 => u32::try_from(number).ok().map(Payer::User),
            2 => u32::try_from(number).ok().map(Payer::Group),
            3 => Some(Payer::Tree(InodeNumber(number))),
            _ => None,
        }
    }
}

impl std::fmt::Display for Payer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Payer::User(uid) => write!(f, "user {uid}"),
            Payer::Group(gid) => write!(f, "group {gid}"),
            Payer::Tree(tree) => write!(f, "directory {tree}"),
        }
    }
}

/// The owner whose limits are to be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limited {
    /// A user's.
    User(u32),
    /// A group's.
    Group(u32),
    /// Those of the directory at this path below the root, which becomes a quota's if it is none.
    Directory(#[serde(with = "serde_bytes")] Vec<u8>),
}

/// An owner's amounts, and the most it may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Who.
    pub payer: Payer,
    /// The path of a directory, below the root and without a leading slash.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// The amounts in the shared area.
    pub used: Amounts,
    /// The amounts it may have.
    pub allowance: Allowance,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payers_survive_their_keys() {
        for payer in [Payer::User(u32::MAX), Payer::Group(0), Payer::Tree(InodeNumber(1 << 40))] {
            assert_eq!(Payer::from_key(payer.key()), Some(payer));
        }
        for key in [(0, 1), (4, 1), (1, 1 << 32), (2, u64::MAX)] {
            assert_eq!(Payer::from_key(key), None);
        }
    }

    #[test]
    fn what_lasts_is_the_lower_limit_of_two() {
        let both = |soft, hard| {
            let amounts = |blocks| Amounts { blocks, inodes: 0 };
            Limits { soft: amounts(soft), ..Limits::hard(amounts(hard)) }.lasting().blocks
        };
        assert_eq!([both(0, 0), both(0, 7), both(5, 0), both(5, 7), both(9, 7)], [0, 7, 5, 5, 7]);
    }

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
