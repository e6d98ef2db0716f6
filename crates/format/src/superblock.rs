//! The superblock: what a store is, and whether this version may open it.

use crate::{Geometry, StoreId, geometry::GeometryError};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes the superblock takes.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// The format this build reads and writes.
pub const FORMAT_VERSION: u32 = 7;

const MAGIC: [u8; 8] = *b"CUESTAFS";

/// How bytes of the fast tier become durable (DESIGN §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// Memory of this machine: survives the death of processes, not the loss of power.
    Memory,
    /// Persistent memory mapped with DAX: survives power loss after a write-back and a fence.
    Pmem,
    /// A file or device that is durable after a flush.
    Block,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Layout {
    magic: [u8; 8],
    checksum: U32,
    version: U32,
    store: [u8; 16],
    medium: U32,
    ring_slots: U32,
    arena_bytes: U64,
    segment_bytes: U64,
    nvm_bytes: U64,
    unused: [u8; SUPERBLOCK_BYTES - 64],
}

const _: () = assert!(size_of::<Layout>() == SUPERBLOCK_BYTES);

/// A superblock that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Which store this is.
    pub store: StoreId,
    /// The medium of the fast tier.
    pub medium: Medium,
    /// The sizes it was made with.
    pub geometry: Geometry,
}

/// Why a superblock is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// It is shorter than a superblock.
    #[error("the superblock is {0} bytes long, not {SUPERBLOCK_BYTES}")]
    Short(usize),
    /// It does not start as a superblock does.
    #[error("this is no Cuesta store (its superblock does not start with the magic)")]
    Magic,
    /// It was made by another version.
    #[error("the store has format version {found}; this cuesta reads version {FORMAT_VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// Its checksum is wrong.
    #[error("the superblock is damaged (checksum {found:08x}, computed {computed:08x})")]
    Checksum {
        /// The checksum found.
        found: u32,
        /// The checksum computed.
        computed: u32,
    },
    /// It names a medium nobody knows.
    #[error("the superblock names an unknown medium ({0})")]
    Medium(u32),
    /// Its sizes make no sense.
    #[error("the superblock's sizes are unusable: {0}")]
    Geometry(#[from] GeometryError),
}

impl Superblock {
    /// The bytes to write.
    #[must_use]
    pub fn encode(&self) -> Box<[u8; SUPERBLOCK_BYTES]> {
        let mut layout = Layout {
            magic: MAGIC,
            checksum: U32::ZERO,
            version: FORMAT_VERSION.into(),
            store: self.store.0,
            medium: match self.medium {
                Medium::Memory => 0,
                Medium::Pmem => 1,
                Medium::Block => 2,
            }
            .into(),
            ring_slots: self.geometry.ring_slots.into(),
            arena_bytes: self.geometry.arena_bytes.into(),
            segment_bytes: self.geometry.segment_bytes.into(),
            nvm_bytes: self.geometry.nvm_bytes.into(),
            unused: [0; SUPERBLOCK_BYTES - 64],
        };
        layout.checksum = crate::entry::crc32c(&layout.as_bytes()[12..]).into();
        let mut bytes = Box::new([0; SUPERBLOCK_BYTES]);
        bytes.copy_from_slice(layout.as_bytes());
        bytes
    }

    /// Checks bytes read from media.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
        let (layout, _) = Layout::ref_from_prefix(bytes).map_err(|_| SuperblockError::Short(bytes.len()))?;
        if layout.magic != MAGIC {
            return Err(SuperblockError::Magic);
        }
        let found = layout.version.get();
        if found != FORMAT_VERSION {
            return Err(SuperblockError::Version { found });
        }
        let computed = crate::entry::crc32c(&layout.as_bytes()[12..]);
        if computed != layout.checksum.get() {
            return Err(SuperblockError::Checksum { found: layout.checksum.get(), computed });
        }
        let medium = match layout.medium.get() {
            0 => Medium::Memory,
            1 => Medium::Pmem,
            2 => Medium::Block,
            other => return Err(SuperblockError::Medium(other)),
        };
        let geometry = Geometry {
            arena_bytes: layout.arena_bytes.get(),
            segment_bytes: layout.segment_bytes.get(),
            ring_slots: layout.ring_slots.get(),
            nvm_bytes: layout.nvm_bytes.get(),
        }
        .check()?;
        Ok(Superblock { store: StoreId(layout.store), medium, geometry })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock { store: StoreId([7; 16]), medium: Medium::Memory, geometry: Geometry::default() }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Superblock::decode(&sample().encode()[..]), Ok(sample()));
    }

    #[test]
    fn each_flipped_byte_is_noticed() {
        for at in 0..64 {
            let mut bytes = sample().encode();
            bytes[at] ^= 0x10;
            assert!(Superblock::decode(&bytes[..]).is_err(), "byte {at}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = sample().encode();
        bytes[12] = 9;
        assert_eq!(Superblock::decode(&bytes[..]), Err(SuperblockError::Version { found: 9 }));
        assert_eq!(Superblock::decode(&bytes[..100]), Err(SuperblockError::Short(100)));
    }
}
