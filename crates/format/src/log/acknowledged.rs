//! Marks: how far each log was acknowledged, in a file beside the logs (medium `block`, docs/decisions/0045).
//!
//! Entries carry marks, too, but nothing stands behind the last ones. So a session also stores its mark here, behind each wait for the
//! disk. Nothing waits for this file: after a loss of power a mark may be older than the truth, and never newer.
//!
//! | bytes | what |
//! |---|---|
//! | 0..64 KiB | a mark of 64 bytes for each slot of the session table |
//! | 64 KiB..128 KiB | the same once more: no block that is lost takes both |
//!
//! | bytes of a mark | what |
//! |---|---|
//! | 0..4 | checksum of bytes 4..64 |
//! | 4..8 | the salt of the log: which store, session and generation the mark is about |
//! | 8..16 | everything below this position was acknowledged |
//! | 16..64 | zero |

use crate::LogPosition;
use crate::entry::{Salt, crc32c};
use crate::session_table::SESSION_SLOTS;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a mark.
pub const MARK_BYTES: usize = 64;

/// How often each mark is kept.
pub const MARK_COPIES: u32 = 2;

const COPY_BYTES: u64 = SESSION_SLOTS as u64 * MARK_BYTES as u64;

/// Bytes of the file.
pub const MARKS_BYTES: u64 = MARK_COPIES as u64 * COPY_BYTES;

/// Where copy `copy` (0 or 1) of a slot's mark lies.
#[must_use]
pub fn mark_offset(slot: u32, copy: u32) -> u64 {
    u64::from(copy) * COPY_BYTES + u64::from(slot) * MARK_BYTES as u64
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Layout {
    checksum: U32,
    salt: U32,
    position: U64,
    unused: [u8; 48],
}

const _: () = assert!(size_of::<Layout>() == MARK_BYTES);

/// The bytes of the mark of the log with this salt.
#[must_use]
pub fn encode(salt: Salt, acknowledged: LogPosition) -> [u8; MARK_BYTES] {
    let mut layout = Layout {
        checksum: U32::ZERO,
        salt: salt.to_bits().into(),
        position: acknowledged.0.into(),
        unused: [0; 48],
    };
    layout.checksum = crc32c(&layout.as_bytes()[4..]).into();
    zerocopy::transmute!(layout)
}

/// How far the log with this salt was acknowledged, if these are the bytes of a mark of it.
#[must_use]
pub fn decode(bytes: &[u8; MARK_BYTES], salt: Salt) -> Option<LogPosition> {
    let layout: Layout = zerocopy::transmute!(*bytes);
    let is_sound = crc32c(&layout.as_bytes()[4..]) == layout.checksum.get();
    (is_sound && layout.salt.get() == salt.to_bits()).then(|| LogPosition(layout.position.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogGeneration, SessionId, StoreId};

    #[test]
    fn a_mark_is_of_one_log_and_each_flipped_bit_is_noticed() {
        let salt = |generation| Salt::new(StoreId([4; 16]), SessionId(3), LogGeneration(generation));
        let bytes = encode(salt(1), LogPosition(640));
        assert_eq!(decode(&bytes, salt(1)), Some(LogPosition(640)));
        assert_eq!(decode(&bytes, salt(2)), None);
        assert_eq!(decode(&[0; MARK_BYTES], salt(1)), None);
        for bit in 0..MARK_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged, salt(1)), None, "bit {bit}");
        }
    }

    #[test]
    fn both_copies_of_a_mark_lie_in_blocks_of_their_own() {
        assert_eq!(mark_offset(SESSION_SLOTS - 1, 1) + MARK_BYTES as u64, MARKS_BYTES);
        assert!(mark_offset(0, 1) - mark_offset(0, 0) >= 4096);
    }
}
