//! Every byte of Cuesta at rest and on the wire, and nothing that moves them.
//!
//! The crate knows layouts, checksums and codecs. It opens no file, maps no memory and
//! knows no policy: LibFS, SharedFS, the offline checker and the simulator all read the same
//! definitions from here, and meet nowhere else.
//!
//! Whatever is read from media or from a peer starts as bytes that are not trusted; one
//! function per format checks them and returns the trusted type or says what is wrong.

mod checksums;
pub mod ids;
mod inodes;
mod log;
mod messages;
mod shared;
mod store;

pub use checksums::folding;
#[cfg(target_arch = "x86_64")]
pub use checksums::processor;
pub use inodes::{access_list, inode, inode_layout, pin, quota};
pub use log::{acknowledged, call_tag, dependency, entry, operation};
pub use messages::{event, kernel_notice, mount_calls, parcel, wire};
pub use shared::{account, control, kept_names, seen_reads};
pub use store::{
    disk_profile, durability, emulation, epochs, geometry, identity, persistence, session_table, stamp,
    superblock,
};

pub use call_tag::{CALL_SLOTS, CallRecord, CallSlot, CallTag, Caller, CallerId};
pub use dependency::LogDependency;
pub use durability::Durability;
pub use geometry::Geometry;
pub use ids::{
    ArenaId, BlockAddress, Epoch, InodeNumber, LeaseGeneration, LogGeneration, LogPosition, SegmentId,
    SessionId, StoreId, TierNumber,
};
pub use inode::{Extent, FileKind, InodeRecord, Timestamp};
pub use operation::Operation;
pub use persistence::PersistenceDomain;
pub use superblock::Medium;

/// Bytes in a block: the unit in which the shared area is allocated and copied on write.
pub const BLOCK_BYTES: u64 = 4096;

/// Longest name of a directory entry, in bytes (as `NAME_MAX` of Linux).
pub const NAME_BYTES_MAX: usize = 255;

/// Longest target of a symbolic link, in bytes.
pub const SYMLINK_BYTES_MAX: usize = 4095;

/// Most bytes one write call stores atomically; a longer write is served short of its length.
pub const WRITE_BYTES_MAX: usize = 16 << 20;

/// Longest value of an extended attribute, in bytes (as `XATTR_SIZE_MAX` of Linux).
pub const EXTENDED_VALUE_BYTES_MAX: usize = 64 << 10;

/// Most bytes the names of one inode's extended attributes take, each with a byte behind it: the limit of one list
/// (as `XATTR_LIST_MAX` of Linux).
pub const EXTENDED_NAMES_BYTES_MAX: usize = 64 << 10;

/// Most bytes the names and values of one inode's extended attributes take.
pub const EXTENDED_BYTES_MAX: u32 = 1 << 20;

/// Links one inode may have (as ext4 allows).
pub const LINKS_MAX: u32 = 65_000;

/// Largest size of a file: offsets stay positive as `off_t`.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64 - BLOCK_BYTES + 1;
