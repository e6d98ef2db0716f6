//! What makes a store this store and no other: a secret that its folder and its fast tier share, and its device number.
//!
//! The record lies in both folders. A fast tier is found by a path that other users can see, so the daemon believes it only if its
//! record holds the secret of the store. Each copy mends the other one.
//!
//! The device number is what `stat` shows as `st_dev` while no mount has given the store another one. It is drawn at random
//! from a range that the kernel gives to nothing. A copy of a store's folder must not have the number of the original, so
//! the record also says which folder it was written for: a copied folder has another inode or another time of birth.

use crate::StoreId;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes the record takes.
pub const IDENTITY_BYTES: usize = 128;

const MAGIC: [u8; 8] = *b"CUESTAID";
const VERSION: u32 = 1;

/// Major numbers that the kernel gives to no device: those of devices end below 512, and programs pack 12 bits of them.
const MAJOR_FIRST: u64 = 1024;
const MAJORS: u64 = 3072;

/// A number for `st_dev`, in the encoding of `dev_t`: below 2^44, so that programs which hold it in a double keep all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceNumber(pub u64);

impl DeviceNumber {
    /// The number that random bits come to.
    #[must_use]
    pub fn from_random(bits: u64) -> DeviceNumber {
        let (major, minor) = (MAJOR_FIRST + (bits >> 32) % MAJORS, bits & 0xffff_ffff);
        DeviceNumber((minor & 0xff) | major << 8 | (minor & !0xff) << 12)
    }

    /// The major number.
    #[must_use]
    pub fn major(self) -> u32 {
        (self.0 >> 8 & 0xfff | self.0 >> 32 & 0xffff_f000) as u32
    }

    /// The minor number.
    #[must_use]
    pub fn minor(self) -> u32 {
        (self.0 & 0xff | self.0 >> 12 & 0xffff_ff00) as u32
    }
}

/// Which folder a record was written for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderMark {
    /// The folder's inode number.
    pub inode: u64,
    /// When the folder was made, in nanoseconds; 0 where its file system does not say.
    pub born_ns: u64,
}

/// A store's identity.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Which store.
    pub store: StoreId,
    /// What only the store's own folders hold.
    pub secret: [u8; 32],
    /// Its `st_dev` while it is mounted nowhere.
    pub device: DeviceNumber,
    /// The store's folder.
    pub folder: FolderMark,
}

impl std::fmt::Debug for Identity {
    /// Without the secret: it must not come into a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Identity { store, device, folder, .. } = self;
        f.debug_struct("Identity")
            .field("store", store)
            .field("device", device)
            .field("folder", folder)
            .finish_non_exhaustive()
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Layout {
    magic: [u8; 8],
    checksum: U32,
    version: U32,
    store: [u8; 16],
    secret: [u8; 32],
    device: U64,
    folder_inode: U64,
    folder_born_ns: U64,
    unused: [u8; IDENTITY_BYTES - 88],
}

const _: () = assert!(size_of::<Layout>() == IDENTITY_BYTES);

impl Identity {
    /// The bytes to write.
    #[must_use]
    pub fn encode(&self) -> [u8; IDENTITY_BYTES] {
        let mut layout = Layout {
            magic: MAGIC,
            checksum: U32::ZERO,
            version: VERSION.into(),
            store: self.store.0,
            secret: self.secret,
            device: self.device.0.into(),
            folder_inode: self.folder.inode.into(),
            folder_born_ns: self.folder.born_ns.into(),
            unused: [0; IDENTITY_BYTES - 88],
        };
        layout.checksum = crate::entry::crc32c(&layout.as_bytes()[12..]).into();
        let mut bytes = [0; IDENTITY_BYTES];
        bytes.copy_from_slice(layout.as_bytes());
        bytes
    }

    /// The record that bytes hold, if they are whole and of this version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Identity> {
        let (layout, _) = Layout::ref_from_prefix(bytes).ok()?;
        let computed = crate::entry::crc32c(&layout.as_bytes()[12..]);
        let is_whole =
            layout.magic == MAGIC && layout.version.get() == VERSION && layout.checksum.get() == computed;
        is_whole.then(|| Identity {
            store: StoreId(layout.store),
            secret: layout.secret,
            device: DeviceNumber(layout.device.get()),
            folder: FolderMark { inode: layout.folder_inode.get(), born_ns: layout.folder_born_ns.get() },
        })
    }

    /// Whether `other` proves to be of the same store. The comparison takes as long for any secret.
    #[must_use]
    pub fn is_of_same_store(&self, other: &Identity) -> bool {
        let differs =
            self.secret.iter().zip(other.secret).fold(0, |differs, (one, other)| differs | (one ^ other));
        differs == 0 && self.store == other.store
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Identity {
        Identity {
            store: StoreId([7; 16]),
            secret: [9; 32],
            device: DeviceNumber::from_random(0x1234_5678_9abc_def0),
            folder: FolderMark { inode: 12, born_ns: 1_700_000_000_000_000_001 },
        }
    }

    #[test]
    fn what_is_written_is_read_and_each_flipped_byte_is_noticed() {
        assert_eq!(Identity::decode(&sample().encode()), Some(sample()));
        for at in 0..IDENTITY_BYTES {
            let mut bytes = sample().encode();
            bytes[at] ^= 0x10;
            assert_eq!(Identity::decode(&bytes), None, "byte {at}");
        }
        assert_eq!(Identity::decode(&sample().encode()[..100]), None);
        assert!(!format!("{:?}", sample()).contains("9, 9"), "the secret is printed");
    }

    #[test]
    fn device_numbers_are_of_no_device_and_survive_a_double() {
        for bits in [0, 1, u64::MAX, 0xffff_ffff, 0x0000_0c00_0000_0000, 0x1234_5678_9abc_def0] {
            let number = DeviceNumber::from_random(bits);
            assert!((1024..4096).contains(&number.major()), "{bits:x}: major {}", number.major());
            assert_eq!(number.minor(), bits as u32);
            assert!(number.0 < 1 << 44);
        }
    }

    #[test]
    fn another_secret_is_of_another_store() {
        let other = Identity { secret: [8; 32], ..sample() };
        assert!(!sample().is_of_same_store(&other));
        let moved = Identity { device: DeviceNumber(1), folder: FolderMark::default(), ..sample() };
        assert!(sample().is_of_same_store(&moved));
    }
}
