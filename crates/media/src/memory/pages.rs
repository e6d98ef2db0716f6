//! Pages: reserving addresses, mapping parts of files, and touching what is mapped.
//!
//! The file knows the kernel's calls only. Which accesses a mapping allows afterwards is in `shared.rs`.

use crate::copying::arch;
use crate::error::MediaError;
use cuesta_format::Medium;
use rustix::fd::AsFd;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// The accesses that a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Loads only.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

impl Protection {
    pub(crate) fn flags(self) -> ProtFlags {
        match self {
            Protection::ReadOnly => ProtFlags::READ,
            Protection::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// Maps part of a file.
///
/// # Safety
/// With `MapFlags::FIXED` the range at `place` is the caller's to replace.
pub(crate) unsafe fn map(
    place: *mut c_void,
    len: usize,
    protection: Protection,
    flags: MapFlags,
    file: impl AsFd,
    offset: u64,
) -> Result<NonNull<u8>, MediaError> {
    // SAFETY: the caller's promise.
    let base = unsafe { rustix::mm::mmap(place, len, protection.flags(), flags, file, offset) }
        .map_err(MediaError::system("map file"))?;
    NonNull::new(base.cast())
        .ok_or(MediaError::System { action: "map file", errno: rustix::io::Errno::NOMEM })
}

/// Takes `len` bytes of address space that hold nothing yet.
pub(crate) fn reserve(len: usize) -> Result<NonNull<u8>, MediaError> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel picks the address, so no memory in use is replaced.
    let base = unsafe { rustix::mm::mmap_anonymous(null_mut(), len, ProtFlags::empty(), flags) }
        .map_err(MediaError::system("reserve addresses"))?;
    NonNull::new(base.cast::<u8>())
        .ok_or(MediaError::System { action: "reserve addresses", errno: rustix::io::Errno::NOMEM })
}

/// Mapping flags of a medium; on `pmem` the kernel must promise that flushed stores need no fsync (MAP_SYNC).
pub(crate) fn share_flags(medium: Medium) -> Result<MapFlags, MediaError> {
    match medium {
        Medium::Memory | Medium::Block => Ok(MapFlags::SHARED),
        Medium::Pmem if arch::CAN_PERSIST => Ok(MapFlags::SHARED_VALIDATE | MapFlags::SYNC),
        Medium::Pmem => Err(MediaError::Unsupported(medium)),
    }
}

/// Touches every page, so that no later access pays for it.
///
/// # Safety
/// The range is mapped with `protection`, on page boundaries.
pub(crate) unsafe fn touch(base: *mut u8, len: usize, protection: Protection) -> Result<(), MediaError> {
    let advice = match protection {
        Protection::ReadOnly => Advice::LinuxPopulateRead,
        Protection::ReadWrite => Advice::LinuxPopulateWrite,
    };
    // SAFETY: populating changes no contents.
    unsafe { rustix::mm::madvise(base.cast::<c_void>(), len, advice) }
        .map_err(MediaError::system("touch mapped pages"))
}
