//! The sizes a store was made with, and where each thing lies: every path and offset is computed here.

use crate::{ArenaId, BLOCK_BYTES, BlockAddress, LogPosition, SegmentId, TierNumber, WRITE_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// Sizes fixed at `mkfs`, written in the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Bytes of one arena file; a multiple of the block size.
    pub arena_bytes: u64,
    /// Bytes of one log segment file; a multiple of the page size.
    pub segment_bytes: u64,
    /// Segments in a session's ring once it has grown to its full length.
    pub ring_slots: u32,
    /// Bytes of the fast tier that arenas may take in all.
    pub nvm_bytes: u64,
    /// Each block of content has a checksum behind the blocks of its arena.
    pub checks_content: bool,
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry {
            arena_bytes: 64 << 20,
            segment_bytes: 2 << 20,
            ring_slots: 32,
            nvm_bytes: 4 << 30,
            checks_content: false,
        }
    }
}

/// Why a geometry cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The arena size is not a positive multiple of the block size that fits a bitmap record.
    #[error("arenas of {0} bytes: it must be a multiple of {BLOCK_BYTES} from 64 KiB to 1 GiB")]
    Arena(u64),
    /// The segment size is not a positive multiple of the page size.
    #[error("log segments of {0} bytes: it must be a multiple of {BLOCK_BYTES} from 16 KiB to 64 MiB")]
    Segment(u64),
    /// The ring is shorter than two segments or longer than the notice page allows.
    #[error("a log of {0} segments: it must have from 2 to 1024")]
    Ring(u32),
    /// The tier does not hold one arena.
    #[error("a fast tier of {0} bytes does not hold one arena")]
    Tier(u64),
}

impl Geometry {
    /// Checks sizes read from a superblock or a command line.
    pub fn check(self) -> Result<Geometry, GeometryError> {
        let blocks = |bytes: u64| bytes.is_multiple_of(BLOCK_BYTES);
        if !blocks(self.arena_bytes) || !(64 << 10..=1 << 30).contains(&self.arena_bytes) {
            return Err(GeometryError::Arena(self.arena_bytes));
        }
        if !blocks(self.segment_bytes) || !(16 << 10..=64 << 20).contains(&self.segment_bytes) {
            return Err(GeometryError::Segment(self.segment_bytes));
        }
        if !(2..=1024).contains(&self.ring_slots) {
            return Err(GeometryError::Ring(self.ring_slots));
        }
        if self.nvm_bytes < self.arena_bytes {
            return Err(GeometryError::Tier(self.nvm_bytes));
        }
        Ok(self)
    }

    /// Bytes of a fully grown log.
    #[must_use]
    pub fn ring_bytes(&self) -> u64 {
        self.segment_bytes * u64::from(self.ring_slots)
    }

    /// Most bytes one entry may take: about a quarter of the ring (with its header, so that the usual ring
    /// takes a whole write), and never more than a whole write.
    #[must_use]
    pub fn entry_bytes_max(&self) -> u64 {
        (self.ring_bytes() / 4).min(WRITE_BYTES_MAX as u64) + 4096
    }

    /// Slots mapped a second time behind the ring's end, so that any entry is contiguous in memory.
    #[must_use]
    pub fn overlap_slots(&self) -> u32 {
        let slots = self.entry_bytes_max().div_ceil(self.segment_bytes) + 1;
        u32::try_from(slots).unwrap_or(u32::MAX).min(self.ring_slots)
    }

    /// The ring slot a position lies in.
    #[must_use]
    pub fn slot(&self, position: LogPosition) -> u32 {
        ((position.0 / self.segment_bytes) % u64::from(self.ring_slots)) as u32
    }

    /// The position's offset in the ring.
    #[must_use]
    pub fn ring_offset(&self, position: LogPosition) -> u64 {
        position.0 % self.ring_bytes()
    }

    /// Arenas the tier has room for.
    #[must_use]
    pub fn arenas_max(&self) -> u32 {
        u32::try_from(self.nvm_bytes / self.arena_bytes).unwrap_or(u32::MAX).min(ArenaId::INDEX_MAX)
    }

    /// The sizes of an arena of a tier. Arenas of all tiers are as long as each other. Content of a lower tier
    /// always has checksums.
    #[must_use]
    pub fn of_tier(self, tier: TierNumber) -> Geometry {
        Geometry { checks_content: self.checks_content || tier != TierNumber::FAST, ..self }
    }

    /// Blocks of one arena.
    #[must_use]
    pub fn arena_blocks(&self) -> u32 {
        (self.arena_bytes / BLOCK_BYTES) as u32
    }

    /// Bytes of an arena's file: its blocks, and their checksums if there are any.
    #[must_use]
    pub fn arena_file_bytes(&self) -> u64 {
        let sums = u64::from(self.arena_blocks()) * size_of::<u32>() as u64;
        self.arena_bytes + if self.checks_content { sums.next_multiple_of(BLOCK_BYTES) } else { 0 }
    }

    /// Where an arena begins, if the arenas of its tier are taken to lie one behind the other, as on a disk.
    #[must_use]
    pub fn place_in_tier(&self, arena: ArenaId) -> u64 {
        u64::from(arena.index()) * self.of_tier(arena.tier()).arena_file_bytes()
    }

    /// Where in its arena's file the checksum of a block lies.
    #[must_use]
    pub fn sum_offset(&self, address: BlockAddress) -> u64 {
        self.arena_bytes + self.arena_offset(address) / BLOCK_BYTES * size_of::<u32>() as u64
    }

    /// The arena an address lies in.
    #[must_use]
    pub fn arena(&self, address: BlockAddress) -> ArenaId {
        ArenaId::new(address.tier(), address.offset() / self.arena_bytes)
    }

    /// The address's offset in its arena.
    #[must_use]
    pub fn arena_offset(&self, address: BlockAddress) -> u64 {
        address.offset() % self.arena_bytes
    }

    /// The address of block `block` of an arena.
    #[must_use]
    pub fn address(&self, arena: ArenaId, block: u32) -> BlockAddress {
        let offset = u64::from(arena.index()) * self.arena_bytes + u64::from(block) * BLOCK_BYTES;
        BlockAddress::in_tier(arena.tier(), offset)
    }
}

/// The superblock's name in the tier's directory.
pub const SUPERBLOCK_FILE: &str = "superblock";
/// The name of its second copy.
pub const SUPERBLOCK_COPY_FILE: &str = "superblock.copy";
/// The session table's name in the tier's directory,
pub const SESSIONS_FILE: &str = "sessions";
/// and that of its second copy.
pub const SESSIONS_COPY_FILE: &str = "sessions.copy";
/// The name of what processes share of a medium that is played, in the tier's directory ([`crate::emulation`]).
pub const CHANNELS_FILE: &str = "channels";
/// The names of what says what damaged logs lost, until that was told, in the tier's directory: lines for people, twice.
pub const LOST_FILES: [&str; 2] = ["lost", "lost.copy"];
/// The name of what says how far each log was acknowledged, in the tier's directory ([`crate::acknowledged`]).
pub const ACKNOWLEDGED_FILE: &str = "acknowledged";
/// The name of the page that counts daemons, in the tier's directory.
pub const INCARNATION_FILE: &str = "incarnation";
/// A second name of the same file.
pub const INCARNATION_COPY_FILE: &str = "incarnation.copy";
/// The name of what says in which boot of the machine the store was last open, in the tier's directory.
pub const BOOT_FILE: &str = "boot";
/// The name of what says which epochs are on the disk, in the tier's directory ([`crate::epochs`]).
pub const EPOCHS_FILE: &str = "epochs";
/// The metadata store's name in the tier's directory.
pub const METADATA_FILE: &str = "meta.redb";
/// The name of its second copy, where there is one.
pub const METADATA_COPY_FILE: &str = "meta.copy";
/// The folder of log segments in the tier's directory.
pub const LOGS_FOLDER: &str = "logs";
/// The name of what says which tier of which store a lower tier's directory is ([`crate::stamp`]).
pub const TIER_LABEL_FILE: &str = "tier";
/// The folder of arenas in the tier's directory.
pub const ARENAS_FOLDER: &str = "arenas";
/// The link to the device of bytes that segments and arenas lie on, if they do, in the tier's directory.
pub const DEVICE_LINK: &str = "device";
/// The folder of what the kernel has in the place of pipes and sockets, in the tier's directory.
pub const STAND_INS_FOLDER: &str = "special";
/// The folder of lock files, which show the openers of inodes and their locks (see [`crate::control`]).
pub const REFERENCES_FOLDER: &str = "references";
/// The folder of the files in mapped mode, in [`REFERENCES_FOLDER`]. Each has its inode's number for a name.
pub const MAPPED_FOLDER: &str = "mapped";
/// The folder of what processes of other users have open, in the tier's directory.
pub const USERS_FILES_FOLDER: &str = "users-files";
/// The losses of a repair, in the tier's directory until they were told: lines for people.
pub const REPAIR_FILE: &str = "repair";
/// What makes a store this one ([`crate::identity`]), in the store's directory and in the tier's.
pub const IDENTITY_FILE: &str = "identity";
/// The configuration's name in the store's directory.
pub const CONFIGURATION_FILE: &str = "cuesta.toml";
/// The daemon's socket in the store's directory.
pub const SOCKET_FILE: &str = "sharedfs.sock";
/// The folder in the store's directory that all users may search, whether they reach it or not,
pub const USERS_FOLDER: &str = "users";
/// and in it the daemon's socket for processes of other users.
pub const USERS_SOCKET_FILE: &str = "sock";
/// Beside it: the store's device number ([`crate::identity::DeviceNumber`]), in decimal digits.
pub const USERS_DEVICE_FILE: &str = "device";
/// The daemon's lock file in the store's directory.
pub const LOCK_FILE: &str = "lock";

/// A segment's path below the tier's directory.
#[must_use]
pub fn segment_path(segment: SegmentId) -> String {
    format!("{LOGS_FOLDER}/seg-{:06}", segment.0)
}

/// An arena's path below the tier's directory.
#[must_use]
pub fn arena_path(arena: ArenaId) -> String {
    format!("{ARENAS_FOLDER}/arena-{:06}", arena.index())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_geometry_is_sound() {
        let geometry = Geometry::default().check().unwrap();
        assert_eq!(geometry.ring_bytes(), 64 << 20);
        assert_eq!(geometry.slot(LogPosition(64 << 20)), 0);
        assert!(u64::from(geometry.overlap_slots()) * geometry.segment_bytes >= geometry.entry_bytes_max());
    }

    #[test]
    fn addresses_and_arenas_agree() {
        let geometry = Geometry::default();
        let address = geometry.address(ArenaId(3), 17);
        assert_eq!(geometry.arena(address), ArenaId(3));
        assert_eq!(geometry.arena_offset(address), 17 * BLOCK_BYTES);
        assert_eq!(geometry.arena_file_bytes(), geometry.arena_bytes);
        let checked = Geometry { checks_content: true, ..geometry };
        assert_eq!(checked.sum_offset(address), geometry.arena_bytes + 17 * 4);
        assert_eq!(checked.arena_file_bytes(), geometry.arena_bytes + 16384 * 4);
    }

    #[test]
    fn an_address_names_its_tier_and_the_fast_tier_has_the_numbers_it_always_had() {
        let geometry = Geometry::default();
        for (tier, index) in [(0, 0), (0, 3), (1, 0), (2, 70_000), (255, ArenaId::INDEX_MAX - 1)] {
            let arena = ArenaId::new(TierNumber(tier), index.into());
            assert_eq!((arena.tier(), arena.index()), (TierNumber(tier), index));
            let address = geometry.address(arena, 17);
            assert_eq!((geometry.arena(address), address.tier()), (arena, TierNumber(tier)));
            assert_eq!(geometry.arena_offset(address), 17 * BLOCK_BYTES);
        }
        assert_eq!(geometry.address(ArenaId(5), 2), BlockAddress(5 * (64 << 20) + 2 * BLOCK_BYTES));
        let nowhere = BlockAddress(geometry.arena_bytes * u64::from(u32::MAX));
        assert_eq!(geometry.arena(nowhere).index(), ArenaId::INDEX_MAX, "of content that was lost");
    }

    #[test]
    fn unusable_sizes_are_refused() {
        let with = |change: fn(&mut Geometry)| {
            let mut geometry = Geometry::default();
            change(&mut geometry);
            geometry.check()
        };
        assert!(matches!(with(|g| g.arena_bytes = 5000), Err(GeometryError::Arena(5000))));
        assert!(matches!(with(|g| g.segment_bytes = 0), Err(GeometryError::Segment(0))));
        assert!(matches!(with(|g| g.ring_slots = 1), Err(GeometryError::Ring(1))));
        assert!(matches!(with(|g| g.nvm_bytes = 1), Err(GeometryError::Tier(1))));
    }
}
