//! Epochs: spans of a store's history, each of which reaches the disk as a whole (medium `block`, docs/decisions/0062).
//!
//! In optimistic mode SharedFS writes all logs in the background. A word that all sessions see names the present
//! epoch ([`crate::control::StorePage`]). SharedFS ends an epoch: it moves the word, has the disk take every log as far
//! as it is complete then, and records the epoch here. Entries of epochs that are not recorded do not survive a loss of
//! power, whether the disk has them or not ([`crate::LogDependency::on_epoch`]). So the store is then as
//! every session had left it at one moment.
//!
//! | bytes | content |
//! |---|---|
//! | 0..64 | a record |
//! | 4096..4160 | the other one; the newer counts, and the older is written next |
//!
//! | bytes of a record | content |
//! |---|---|
//! | 0..4 | checksum of bytes 4..64 |
//! | 4..8 | zero |
//! | 8..16 | the epoch: it and all before are on the disk |
//! | 16..32 | the store |
//! | 32..64 | zero |

use crate::entry::crc32c;
use crate::{Epoch, StoreId};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;

/// How many records there are.
pub const RECORDS: u64 = 2;

/// Bytes from one record to the next: no block that is torn has parts of both.
const RECORD_STEP: u64 = 4096;

/// Bytes of the file.
pub const EPOCHS_BYTES: u64 = RECORDS * RECORD_STEP;

/// Where the record of an epoch lies.
#[must_use]
pub fn record_offset(epoch: Epoch) -> u64 {
    epoch.0 % RECORDS * RECORD_STEP
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Layout {
    checksum: U32,
    zero: U32,
    epoch: U64,
    store: [u8; 16],
    unused: [u8; 32],
}

const _: () = assert!(size_of::<Layout>() == RECORD_BYTES);

/// The bytes of the record of an epoch.
#[must_use]
pub fn encode(store: StoreId, epoch: Epoch) -> [u8; RECORD_BYTES] {
    let mut layout = Layout {
        checksum: U32::ZERO,
        zero: U32::ZERO,
        epoch: epoch.0.into(),
        store: store.0,
        unused: [0; 32],
    };
    layout.checksum = crc32c(&layout.as_bytes()[4..]).into();
    zerocopy::transmute!(layout)
}

/// The epoch of a record of this store, if these are the bytes of one.
#[must_use]
pub fn decode(bytes: &[u8; RECORD_BYTES], store: StoreId) -> Option<Epoch> {
    let layout: Layout = zerocopy::transmute!(*bytes);
    let is_sound = crc32c(&layout.as_bytes()[4..]) == layout.checksum.get();
    (is_sound && layout.store == store.0).then(|| Epoch(layout.epoch.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_of_one_store_and_each_flipped_bit_is_noticed() {
        let (store, epoch) = (StoreId([4; 16]), Epoch(0x0102_0304_0506));
        let bytes = encode(store, epoch);
        assert_eq!(decode(&bytes, store), Some(epoch));
        assert_eq!(decode(&bytes, StoreId([5; 16])), None);
        for bit in 0..RECORD_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped, store), None, "bit {bit}");
        }
        assert_ne!(record_offset(epoch), record_offset(Epoch(epoch.0 + 1)));
    }
}
