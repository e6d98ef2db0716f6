//! Of which opening of its store a file is: what tells an old copy of it from the file, and a file of another store.
//!
//! The superblock says how often the store has been opened ([`Opening`]). A file that has a stamp gets that of the new opening before the
//! superblock does, and at an orderly end it says so before the superblock does. So a file is of the superblock's opening, or of the one that was
//! broken off behind it.
//!
//! | superblock | a sound file |
//! |---|---|
//! | generation g, closed | g, closed; or g + 1, not closed |
//! | generation g, not closed | g; or g + 1, not closed |

use crate::StoreId;
use crate::entry::crc32c;
use crate::superblock::Opening;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes a stamp takes.
pub const STAMP_BYTES: usize = 48;

const MAGIC: [u8; 8] = *b"CUESTAGN";

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Layout {
    magic: [u8; 8],
    checksum: U32,
    what: U32,
    store: [u8; 16],
    generation: U64,
    is_closed: U32,
    unused: [u8; 4],
}

const _: () = assert!(size_of::<Layout>() == STAMP_BYTES);

/// The stamp in a file: the opening that the file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The store it belongs to.
    pub store: StoreId,
    /// Which file of the store it is, where there are several of its kind.
    pub what: u32,
    /// The opening in which it was last written.
    pub opening: Opening,
}

/// Why a file is not the one that belongs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// It has no stamp.
    #[error("it does not say which store it belongs to")]
    Unmarked,
    /// It is another store's.
    #[error("it belongs to another store ({0})")]
    Store(StoreId),
    /// It is another file of the store.
    #[error("it is another file of this store (number {0})")]
    Other(u32),
    /// It is an old copy.
    #[error("it is an old copy, of opening {} of the store{}; the store is at opening {}", found.generation, if found.is_closed { "" } else { " while that was under way" }, now.generation)]
    Old {
        /// The opening in the file.
        found: Opening,
        /// The opening in the superblock.
        now: Opening,
    },
    /// It is newer than the superblock.
    #[error("it is of opening {} of the store, and the superblock of opening {}", found.generation, now.generation)]
    Newer {
        /// The opening in the file.
        found: Opening,
        /// The opening in the superblock.
        now: Opening,
    },
}

impl Stamp {
    /// The bytes to write.
    #[must_use]
    pub fn encode(&self) -> [u8; STAMP_BYTES] {
        let mut layout = Layout {
            magic: MAGIC,
            checksum: U32::ZERO,
            what: self.what.into(),
            store: self.store.0,
            generation: self.opening.generation.into(),
            is_closed: u32::from(self.opening.is_closed).into(),
            unused: [0; 4],
        };
        layout.checksum = crc32c(&layout.as_bytes()[12..]).into();
        let mut bytes = [0; STAMP_BYTES];
        bytes.copy_from_slice(layout.as_bytes());
        bytes
    }

    /// Reads one; `None`: there is none, or it is not what was written.
    #[must_use]
    pub fn decode(bytes: &[u8; STAMP_BYTES]) -> Option<Stamp> {
        let layout = Layout::ref_from_bytes(bytes).ok()?;
        if layout.magic != MAGIC || crc32c(&layout.as_bytes()[12..]) != layout.checksum.get() {
            return None;
        }
        let opening = Opening { generation: layout.generation.get(), is_closed: layout.is_closed.get() != 0 };
        Some(Stamp { store: StoreId(layout.store), what: layout.what.get(), opening })
    }

    /// Whether a file with this stamp is the one that belongs in a store whose superblock says `now`.
    pub fn judge(&self, store: StoreId, what: u32, now: Opening) -> Result<(), Misplaced> {
        let found = self.opening;
        if self.store != store {
            return Err(Misplaced::Store(self.store));
        }
        if self.what != what {
            return Err(Misplaced::Other(self.what));
        }
        if found.generation > now.generation + 1 {
            return Err(Misplaced::Newer { found, now });
        }
        let is_next = found.generation == now.generation + 1 && !found.is_closed;
        let is_of_now = found.generation == now.generation && (found.is_closed || !now.is_closed);
        if is_next || is_of_now { Ok(()) } else { Err(Misplaced::Old { found, now }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([7; 16]);

    fn stamp(generation: u64, is_closed: bool) -> Stamp {
        Stamp { store: STORE, what: 3, opening: Opening { generation, is_closed } }
    }

    #[test]
    fn what_is_written_is_read_and_each_flipped_byte_is_noticed() {
        let bytes = stamp(9, true).encode();
        assert_eq!(Stamp::decode(&bytes), Some(stamp(9, true)));
        for at in 0..STAMP_BYTES {
            let mut bytes = bytes;
            bytes[at] ^= 0x10;
            assert_eq!(Stamp::decode(&bytes), None, "byte {at}");
        }
        assert_eq!(Stamp::decode(&[0; STAMP_BYTES]), None);
    }

    #[test]
    fn an_old_copy_and_a_file_of_another_store_are_told_from_the_file() {
        let judge = |generation, is_closed, closed| {
            let now = Opening { generation: 5, is_closed: closed };
            stamp(generation, is_closed).judge(STORE, 3, now)
        };
        for closed in [true, false] {
            assert_eq!(judge(5, true, closed), Ok(()));
            assert_eq!(judge(6, false, closed), Ok(()), "an opening that was broken off");
            assert!(matches!(judge(4, true, closed), Err(Misplaced::Old { .. })));
            assert!(matches!(judge(6, true, closed), Err(Misplaced::Old { .. })));
            assert!(matches!(judge(7, false, closed), Err(Misplaced::Newer { .. })));
        }
        assert_eq!(judge(5, false, false), Ok(()));
        assert!(matches!(judge(5, false, true), Err(Misplaced::Old { .. })), "copied while it was in use");
        let now = Opening { generation: 5, is_closed: true };
        assert_eq!(stamp(5, true).judge(StoreId([8; 16]), 3, now), Err(Misplaced::Store(STORE)));
        assert_eq!(stamp(5, true).judge(STORE, 2, now), Err(Misplaced::Other(3)));
    }
}
