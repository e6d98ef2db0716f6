//! The superblock: the identity and shape of a store, and whether this version may open it.

use crate::{Geometry, StoreId, geometry::GeometryError};
use std::fmt;
use std::str::FromStr;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes the superblock takes.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// The format this build reads and writes. A store of another one is refused.
pub const FORMAT_VERSION: u32 = 9;

/// What this build adds to that format. A store of a lower minor version opens, and has this one from then on; of a higher one it is refused.
///
/// | minor version | adds |
/// |---|---|
/// | 0 | |
/// | 1 | second copies of the superblock, and on medium `block` of the metadata; the store's generation ([`Opening`], [`crate::stamp`]) |
/// | 2 | call tags in log entries, and a table of calls in the metadata ([`crate::call_tag`]) |
/// | 3 | dependencies between logs ([`crate::dependency`]) |
/// | 4 | staged writes in logs ([`crate::operation::StagedWrite`]), and a table of windows in the metadata |
/// | 5 | dependencies on epochs of the store ([`crate::epochs`]) |
pub const FORMAT_MINOR: u32 = 5;

const MAGIC: [u8; 8] = *b"CUESTAFS";

/// How bytes of the fast tier become durable (docs/design/durability.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u32)]
pub enum Medium {
    /// Memory of this machine: survives the death of processes, not the loss of power.
    Memory = 0,
    /// Persistent memory mapped with DAX: survives power loss after a write-back and a fence.
    Pmem = 1,
    /// A file or device that is durable after a flush.
    Block = 2,
}

impl Medium {
    /// All there are.
    pub const ALL: [Medium; 3] = [Medium::Memory, Medium::Pmem, Medium::Block];

    /// What people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Medium::Memory => "memory",
            Medium::Pmem => "pmem",
            Medium::Block => "block",
        }
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No medium is called that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no medium {name:?}, but {}", Medium::ALL.map(Medium::name).join(", "))]
pub struct UnknownMedium {
    name: String,
}

impl FromStr for Medium {
    type Err = UnknownMedium;

    fn from_str(name: &str) -> Result<Medium, UnknownMedium> {
        let found = Medium::ALL.into_iter().find(|medium| medium.name() == name);
        found.ok_or_else(|| UnknownMedium { name: name.to_owned() })
    }
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
    checks_content: U32,
    minor: U32,
    generation: U64,
    is_closed: U32,
    unused: [u8; SUPERBLOCK_BYTES - 84],
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

/// Which opening of the store a superblock is of: it changes with each, while the rest of the superblock never does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opening {
    /// How often the store has been opened.
    pub generation: u64,
    /// It was left in order.
    pub is_closed: bool,
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
    #[error(
        "the store has format version {found}, and this cuesta reads version {FORMAT_VERSION}: use the cuesta that made it, or copy \
         its files out with that one and into a store that this one makes"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// A later build of this version has opened it.
    #[error(
        "the store has format version {FORMAT_VERSION}.{found}, and this cuesta reads up to {FORMAT_VERSION}.{FORMAT_MINOR}: use a newer cuesta"
    )]
    Minor {
        /// The minor version found.
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
    /// It names a medium that this version does not know.
    #[error("the superblock names an unknown medium ({0})")]
    Medium(u32),
    /// Its sizes make no sense.
    #[error("the superblock's sizes are unusable: {0}")]
    Geometry(#[from] GeometryError),
}

impl Superblock {
    /// The bytes to write of a store that was never opened.
    #[must_use]
    pub fn encode(&self) -> Box<[u8; SUPERBLOCK_BYTES]> {
        self.encode_at(Opening::default())
    }

    /// The bytes to write.
    #[must_use]
    pub fn encode_at(&self, opening: Opening) -> Box<[u8; SUPERBLOCK_BYTES]> {
        let mut layout = Layout {
            magic: MAGIC,
            checksum: U32::ZERO,
            version: FORMAT_VERSION.into(),
            store: self.store.0,
            medium: (self.medium as u32).into(),
            ring_slots: self.geometry.ring_slots.into(),
            arena_bytes: self.geometry.arena_bytes.into(),
            segment_bytes: self.geometry.segment_bytes.into(),
            nvm_bytes: self.geometry.nvm_bytes.into(),
            checks_content: u32::from(self.geometry.checks_content).into(),
            minor: FORMAT_MINOR.into(),
            generation: opening.generation.into(),
            is_closed: u32::from(opening.is_closed).into(),
            unused: [0; SUPERBLOCK_BYTES - 84],
        };
        layout.checksum = crate::entry::crc32c(&layout.as_bytes()[12..]).into();
        let mut bytes = Box::new([0; SUPERBLOCK_BYTES]);
        bytes.copy_from_slice(layout.as_bytes());
        bytes
    }

    /// Checks bytes read from media.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
        Superblock::decode_at(bytes).map(|(superblock, _)| superblock)
    }

    /// Checks bytes read from media, which say of which opening they are, too.
    pub fn decode_at(bytes: &[u8]) -> Result<(Superblock, Opening), SuperblockError> {
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
        let minor = layout.minor.get();
        if minor > FORMAT_MINOR {
            return Err(SuperblockError::Minor { found: minor });
        }
        let code = layout.medium.get();
        let medium = Medium::ALL.into_iter().find(|&medium| medium as u32 == code);
        let medium = medium.ok_or(SuperblockError::Medium(code))?;
        let geometry = Geometry {
            arena_bytes: layout.arena_bytes.get(),
            segment_bytes: layout.segment_bytes.get(),
            ring_slots: layout.ring_slots.get(),
            nvm_bytes: layout.nvm_bytes.get(),
            checks_content: layout.checks_content.get() != 0,
        }
        .check()?;
        let opening = Opening { generation: layout.generation.get(), is_closed: layout.is_closed.get() != 0 };
        Ok((Superblock { store: StoreId(layout.store), medium, geometry }, opening))
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
        let geometry = Geometry { checks_content: true, ..Geometry::default() };
        let checked = Superblock { geometry, ..sample() };
        assert_eq!(Superblock::decode(&checked.encode()[..]), Ok(checked));
    }

    #[test]
    fn a_medium_is_read_by_what_it_is_called_and_written_as() {
        for medium in Medium::ALL {
            assert_eq!(medium.name().parse(), Ok(medium));
            assert_eq!(serde_json::to_value(medium).unwrap(), medium.name());
            let superblock = Superblock { medium, ..sample() };
            assert_eq!(Superblock::decode(&superblock.encode()[..]), Ok(superblock));
        }
        let unknown = "tape".parse::<Medium>().unwrap_err().to_string();
        assert!(unknown.contains("tape") && unknown.contains("memory, pmem, block"), "{unknown}");
    }

    #[test]
    fn each_flipped_byte_is_noticed() {
        for at in 0..84 {
            let mut bytes = sample().encode();
            bytes[at] ^= 0x10;
            assert!(Superblock::decode(&bytes[..]).is_err(), "byte {at}");
        }
    }

    #[test]
    fn an_opening_is_read_as_it_was_written_and_a_later_minor_version_is_refused() {
        for opening in [Opening::default(), Opening { generation: 1 << 40, is_closed: true }] {
            assert_eq!(Superblock::decode_at(&sample().encode_at(opening)[..]), Ok((sample(), opening)));
        }
        let with_minor = |minor: u32| {
            let mut bytes = sample().encode();
            bytes[68..72].copy_from_slice(&minor.to_le_bytes());
            let sum = crate::entry::crc32c(&bytes[12..]);
            bytes[8..12].copy_from_slice(&sum.to_le_bytes());
            Superblock::decode(&bytes[..])
        };
        assert_eq!(with_minor(0), Ok(sample()));
        let later = FORMAT_MINOR + 1;
        let refused = with_minor(later).unwrap_err();
        assert_eq!(refused, SuperblockError::Minor { found: later });
        assert!(refused.to_string().contains("use a newer cuesta"), "{refused}");
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = sample().encode();
        bytes[12] = FORMAT_VERSION as u8 + 1;
        assert_eq!(
            Superblock::decode(&bytes[..]),
            Err(SuperblockError::Version { found: FORMAT_VERSION + 1 })
        );
        assert_eq!(Superblock::decode(&bytes[..100]), Err(SuperblockError::Short(100)));
    }
}
