//! The Landlock rulesets (landlock(7)) by which a program confines itself. Each ruleset in force is a layer,
//! and every layer must allow what the program asks for.
//!
//! A layer allows a right at an inode if a rule about the inode, or about one of its ancestors, has the
//! right. Rules about directories above the store hold for all of it.
//!
//! [`crate::paths::confined`] finds the ancestors and checks calls.

use cuesta_format::{FileKind, InodeNumber};
use libc::{O_ACCMODE, O_PATH, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
use std::ops::{BitAnd, BitOr, Not};

/// Rights, in the bits of Landlock's system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(pub u64);

impl Rights {
    /// No right.
    pub const NONE: Rights = Rights(0);

    /// Every right there is or will be.
    pub const ALL: Rights = Rights(u64::MAX);

    /// To execute a file.
    pub const EXECUTE: Rights = Rights(1);

    /// To open a file to write.
    pub const WRITE_FILE: Rights = Rights(1 << 1);

    /// To open a file to read.
    pub const READ_FILE: Rights = Rights(1 << 2);

    /// To list a directory.
    pub const READ_DIRECTORY: Rights = Rights(1 << 3);

    /// To remove a directory from a directory.
    pub const REMOVE_DIRECTORY: Rights = Rights(1 << 4);

    /// To remove anything else from a directory.
    pub const REMOVE_FILE: Rights = Rights(1 << 5);

    /// To link or rename from one directory to another.
    pub const REFER: Rights = Rights(1 << 13);

    /// To cut a file.
    pub const TRUNCATE: Rights = Rights(1 << 14);

    /// Rights that a rule about a file may have.
    pub const OF_FILES: Rights = Rights(0b111 | 1 << 14 | 1 << 15);

    /// To make an inode of this kind.
    #[must_use]
    pub const fn to_make(kind: FileKind) -> Rights {
        Rights(match kind {
            FileKind::CharacterDevice => 1 << 6,
            FileKind::Directory => 1 << 7,
            FileKind::File => 1 << 8,
            FileKind::Socket => 1 << 9,
            FileKind::Fifo => 1 << 10,
            FileKind::BlockDevice => 1 << 11,
            FileKind::Symlink => 1 << 12,
        })
    }

    /// To remove an inode of this kind.
    #[must_use]
    pub const fn to_remove(kind: FileKind) -> Rights {
        match kind {
            FileKind::Directory => Rights::REMOVE_DIRECTORY,
            _ => Rights::REMOVE_FILE,
        }
    }

    /// To open an inode of this kind with these flags.
    #[must_use]
    pub const fn to_open(kind: FileKind, flags: i32) -> Rights {
        if flags & O_PATH != 0 {
            return Rights::NONE;
        }
        let mut rights = 0;
        if matches!(flags & O_ACCMODE, O_RDONLY | O_RDWR) {
            rights |= match kind {
                FileKind::Directory => Rights::READ_DIRECTORY.0,
                _ => Rights::READ_FILE.0,
            };
        }
        if matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR) {
            rights |= Rights::WRITE_FILE.0;
        }
        if flags & O_TRUNC != 0 && matches!(kind, FileKind::File) {
            rights |= Rights::TRUNCATE.0;
        }
        Rights(rights)
    }
}

impl BitAnd for Rights {
    type Output = Rights;

    fn bitand(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

impl Not for Rights {
    type Output = Rights;

    fn not(self) -> Rights {
        Rights(!self.0)
    }
}

/// One ruleset in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Rights that are forbidden unless a rule allows them.
    pub handled: Rights,
    /// Rights that rules about directories above the store allow in all of it.
    pub above: Rights,
    /// Rights that rules about inodes of the store allow there and below.
    pub rules: Vec<(InodeNumber, Rights)>,
}

impl Layer {
    fn about(&self, inode: InodeNumber) -> Rights {
        self.rules.iter().filter(|rule| rule.0 == inode).fold(Rights::NONE, |all, rule| all | rule.1)
    }

    /// The rights that this layer forbids. A layer that does not handle moving to another directory forbids
    /// it, too.
    fn forbids(&self, allowed: Rights) -> Rights {
        (self.handled | Rights::REFER) & !allowed
    }
}

/// All rulesets in force for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// In the order in which they came into force.
    pub layers: Vec<Layer>,
}

/// What each layer allows at an inode.
type Allowed = Vec<Rights>;

impl Confinement {
    /// What each layer allows at an inode. `ancestors` begins with the inode itself or its directory, and
    /// goes up.
    pub(super) fn allowed(&self, ancestors: &[InodeNumber]) -> Allowed {
        let along =
            |layer: &Layer| ancestors.iter().fold(layer.above, |all, &inode| all | layer.about(inode));
        self.layers.iter().map(along).collect()
    }

    pub(super) fn allow(&self, allowed: &[Rights], wanted: Rights) -> bool {
        let mut layers = self.layers.iter().zip(allowed);
        layers.all(|(layer, &allowed)| layer.forbids(allowed) & wanted == Rights::NONE)
    }

    /// Whether an inode of this kind would be allowed more at `to` than at `from`. A right that a rule about the
    /// inode itself allows is not gained.
    pub(super) fn gains(&self, inode: InodeNumber, kind: FileKind, from: &[Rights], to: &[Rights]) -> bool {
        let counting = if kind == FileKind::Directory { Rights::ALL } else { Rights::OF_FILES };
        self.layers.iter().zip(from.iter().zip(to)).any(|(layer, (&from, &to))| {
            let before = layer.forbids(from | layer.about(inode));
            before & !layer.forbids(to) & counting != Rights::NONE
        })
    }
}

/// An inode that gets a name or is replaced, and its kind.
pub(super) type InodeAndKind = (InodeNumber, FileKind);

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: InodeNumber = InodeNumber(5);
    const FILE: InodeNumber = InodeNumber(9);

    fn layer(handled: u64, above: u64, rules: &[(InodeNumber, u64)]) -> Layer {
        let rules = rules.iter().map(|&(inode, rights)| (inode, Rights(rights))).collect();
        Layer { handled: Rights(handled), above: Rights(above), rules }
    }

    #[test]
    fn every_layer_must_allow_it_somewhere_on_the_way() {
        let confinement = Confinement {
            layers: vec![layer(0b111, 0b100, &[(FOLDER, 0b010)]), layer(0b010, 0, &[(FILE, 0b010)])],
        };
        let may = |ancestors: &[InodeNumber], wanted| {
            confinement.allow(&confinement.allowed(ancestors), Rights(wanted))
        };
        assert!(may(&[FILE, FOLDER, InodeNumber::ROOT], 0b110));
        assert!(!may(&[FILE, FOLDER, InodeNumber::ROOT], 0b001));
        assert!(!may(&[FILE, InodeNumber::ROOT], 0b010), "the first layer has no rule there");
        assert!(!may(&[FOLDER, InodeNumber::ROOT], 0b010), "the second has none");
        assert!(may(&[InodeNumber::ROOT], 0b1000), "what none speaks of");
        assert!(!may(&[FILE, FOLDER], Rights::REFER.0), "but for moves");
    }

    #[test]
    fn nothing_gains_rights_by_a_move() {
        let (read, make) = (Rights::READ_FILE.0, Rights::to_make(FileKind::File).0);
        let all = read | make;
        let confinement = Confinement { layers: vec![layer(all, 0, &[(FOLDER, all), (FILE, read)])] };
        let (less, more) = (confinement.allowed(&[InodeNumber::ROOT]), confinement.allowed(&[FOLDER]));
        let other = InodeNumber(11);
        assert!(confinement.gains(other, FileKind::File, &less, &more));
        assert!(!confinement.gains(other, FileKind::File, &more, &less));
        assert!(!confinement.gains(FILE, FileKind::File, &less, &more), "it may be read anywhere");
        assert!(confinement.gains(FILE, FileKind::Directory, &less, &more), "things may be made in it");
    }

    #[test]
    fn an_open_asks_for_the_rights_of_its_flags() {
        let open = |flags| Rights::to_open(FileKind::File, flags);
        assert_eq!(open(O_RDONLY), Rights::READ_FILE);
        assert_eq!(open(O_WRONLY | O_TRUNC), Rights::WRITE_FILE | Rights::TRUNCATE);
        assert_eq!(open(O_PATH | O_RDWR), Rights::NONE);
        assert_eq!(open(O_ACCMODE), Rights::NONE, "neither to read nor to write");
        assert_eq!(Rights::to_open(FileKind::Directory, O_RDONLY), Rights::READ_DIRECTORY);
    }
}
