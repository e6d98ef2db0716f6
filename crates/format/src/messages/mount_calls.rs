//! Requests of `ioctl` that a mount answers, and names that mean more to it than others. But for [`DSYNC_REQUEST`], they are
//! calls of a program behind the preload door to a mount of the same store: to open a file by its number, and to have an open file
//! go on at an offset that other processes share. Both are for a process that executes a program without the door, which is to find
//! its inherited files at the mount. A mount listens to its own user and to root alone.

use crate::InodeNumber;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The beginning of a name in the root that stands for the inode with the number behind it.
const BY_NUMBER: &str = ".cuesta-number-";

/// The name of an inode by its number.
#[must_use]
pub fn name_of(inode: InodeNumber) -> String {
    format!("{BY_NUMBER}{}", inode.0)
}

/// The inode that such a name stands for.
#[must_use]
pub fn inode_of(name: &[u8]) -> Option<InodeNumber> {
    let digits = name.strip_prefix(BY_NUMBER.as_bytes())?;
    let is_plain = digits.iter().all(u8::is_ascii_digit) && !digits.starts_with(b"0");
    std::str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok().map(InodeNumber)
}

/// An open file goes on at an offset that others share: the argument of [`SHARE_OFFSET`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShareOffset {
    /// The caller's descriptor of the memory file its cell is in; negative: it is in SharedFS's, of a description that was sent.
    pub memory: i32,
    /// Zero.
    pub padding: u32,
    /// Where in that file the cell is, in bytes; or the number it was sent under.
    pub place: u64,
    /// Where the kernel goes on with the open file.
    pub offset: u64,
}

/// The request: `_IOW('C', 0xe5, struct ShareOffset)`.
pub const SHARE_OFFSET: u32 = 1 << 30 | (size_of::<ShareOffset>() as u32) << 16 | (b'C' as u32) << 8 | 0xe5;

/// The request by which a program waits until the disk has everything that had returned in the store before:
/// `_IO('C', 0xe6)`. Both doors answer it on any open file, to every user. `cuesta.h` has the same number.
pub const DSYNC_REQUEST: u32 = (b'C' as u32) << 8 | 0xe6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_name_each() {
        assert_eq!(inode_of(name_of(InodeNumber(7)).as_bytes()), Some(InodeNumber(7)));
        assert_eq!(inode_of(name_of(InodeNumber(u64::MAX)).as_bytes()), Some(InodeNumber(u64::MAX)));
        for name in [".cuesta-number-", ".cuesta-number-07", ".cuesta-number-+7", ".cuesta-number-7x", "7"] {
            assert_eq!(inode_of(name.as_bytes()), None, "{name}");
        }
        let too_large = format!("{}0", name_of(InodeNumber(u64::MAX)));
        assert_eq!(inode_of(too_large.as_bytes()), None);
    }

    #[test]
    fn the_request_is_as_the_kernel_reads_it() {
        // Written by the caller, 24 bytes.
        assert_eq!(SHARE_OFFSET, 0x4018_43e5);
        assert_eq!(DSYNC_REQUEST, 0x43e6);
    }
}
