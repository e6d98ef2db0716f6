//! Inodes, extents and times: the shared area's record of a file.

use crate::{BLOCK_BYTES, BlockAddress, InodeNumber};
use serde::{Deserialize, Serialize};

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum FileKind {
    /// A regular file.
    File = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A named pipe.
    Fifo = 4,
    /// A socket.
    Socket = 5,
    /// A character device.
    CharacterDevice = 6,
    /// A block device.
    BlockDevice = 7,
}

impl FileKind {
    /// The kind in the file-type bits of a mode, if they name one.
    #[must_use]
    pub fn from_mode(mode: u32) -> Option<FileKind> {
        Some(match mode & 0o170_000 {
            0o100_000 => FileKind::File,
            0o040_000 => FileKind::Directory,
            0o120_000 => FileKind::Symlink,
            0o010_000 => FileKind::Fifo,
            0o140_000 => FileKind::Socket,
            0o020_000 => FileKind::CharacterDevice,
            0o060_000 => FileKind::BlockDevice,
            _ => return None,
        })
    }

    /// The file-type bits of a mode.
    #[must_use]
    pub fn mode_bits(self) -> u32 {
        match self {
            FileKind::File => 0o100_000,
            FileKind::Directory => 0o040_000,
            FileKind::Symlink => 0o120_000,
            FileKind::Fifo => 0o010_000,
            FileKind::Socket => 0o140_000,
            FileKind::CharacterDevice => 0o020_000,
            FileKind::BlockDevice => 0o060_000,
        }
    }

    /// The kind a byte at rest stands for.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<FileKind> {
        Some(match byte {
            1 => FileKind::File,
            2 => FileKind::Directory,
            3 => FileKind::Symlink,
            4 => FileKind::Fifo,
            5 => FileKind::Socket,
            6 => FileKind::CharacterDevice,
            7 => FileKind::BlockDevice,
            _ => return None,
        })
    }
}

/// A point in time: nanoseconds since 1970, negative before (years 1678 to 2262).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// From seconds and nanoseconds, clamped to what can be kept.
    #[must_use]
    pub fn new(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp(seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanoseconds)))
    }

    /// Whole seconds, rounded down.
    #[must_use]
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// Nanoseconds after the whole second.
    #[must_use]
    pub fn nanoseconds(self) -> u32 {
        self.0.rem_euclid(1_000_000_000) as u32
    }
}

/// A run of a file's blocks that lies in one run of the shared area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    /// First block of the file, in blocks.
    pub file_block: u64,
    /// Length in blocks.
    pub blocks: u32,
    /// Where the first block lies.
    pub address: BlockAddress,
}

impl Extent {
    /// The first file block behind the extent.
    #[must_use]
    pub fn end_block(&self) -> u64 {
        self.file_block + u64::from(self.blocks)
    }

    /// The address of file block `file_block`, which must lie inside.
    #[must_use]
    pub fn address_of(&self, file_block: u64) -> BlockAddress {
        debug_assert!((self.file_block..self.end_block()).contains(&file_block));
        self.address.plus((file_block - self.file_block) * BLOCK_BYTES)
    }
}

/// Everything `stat` tells of an inode, as the metadata store keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InodeRecord {
    /// Its number.
    pub inode: InodeNumber,
    /// Its kind and permissions, as `st_mode`.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Names that point to it; a directory counts itself and its sub-directories.
    pub links: u32,
    /// Device number of a device node, as `st_rdev`.
    pub device: u64,
    /// Bytes of content; length of the target of a symbolic link; entries of a directory.
    pub size: u64,
    /// Blocks allocated to it in the shared area.
    pub blocks: u64,
    /// Bytes of the names and values of its extended attributes; 0: it has none.
    pub extended: u32,
    /// One of them is an access list ([`crate::access_list`]).
    pub access_list: bool,
    /// One of them is a default list.
    pub default_list: bool,
    /// It is a file in *mapped mode*: its content, size and time of change are those of a file of the kernel's
    /// ([`crate::geometry::MAPPED_FOLDER`]), and what else is said of them here is out of date.
    pub mapped: bool,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of content.
    pub modified: Timestamp,
    /// Last change of anything.
    pub changed: Timestamp,
    /// Made at.
    pub born: Timestamp,
    /// The directory that holds a directory (root: itself); of a file without a name that may be given one, the
    /// directory it was made in; no inode for others.
    pub parent: InodeNumber,
    /// The nearest directory with a quota that it lies in, which may be itself ([`crate::quota::Payer::Tree`]); no inode:
    /// none. A new inode gets that of its directory, and no inode moves to a directory with another.
    pub tree: InodeNumber,
}

impl InodeRecord {
    /// A fresh inode with one link (two for a directory), made at `now`.
    #[must_use]
    pub fn new(inode: InodeNumber, mode: u32, uid: u32, gid: u32, now: Timestamp) -> InodeRecord {
        let directory = FileKind::from_mode(mode) == Some(FileKind::Directory);
        InodeRecord {
            inode,
            mode,
            uid,
            gid,
            links: if directory { 2 } else { 1 },
            device: 0,
            size: 0,
            blocks: 0,
            extended: 0,
            access_list: false,
            default_list: false,
            mapped: false,
            accessed: now,
            modified: now,
            changed: now,
            born: now,
            parent: InodeNumber::NONE,
            tree: InodeNumber::NONE,
        }
    }

    /// Its kind; a regular file where the mode names none, which `fsck` reports.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        FileKind::from_mode(self.mode).unwrap_or(FileKind::File)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_split_as_timespec_does() {
        let time = Timestamp::new(-1, 999_999_999);
        assert_eq!((time.seconds(), time.nanoseconds()), (-1, 999_999_999));
        assert_eq!(Timestamp::new(i64::MAX, 0), Timestamp(i64::MAX));
    }

    #[test]
    fn kinds_survive_mode_and_byte() {
        for byte in 1..=7 {
            let kind = FileKind::from_byte(byte).unwrap();
            assert_eq!(FileKind::from_mode(kind.mode_bits() | 0o644), Some(kind));
            assert_eq!(kind as u8, byte);
        }
        assert_eq!(FileKind::from_byte(0), None);
        assert_eq!(FileKind::from_mode(0o644), None);
    }
}
