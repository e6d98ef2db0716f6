//! The table of mappings: which place of which file an address is.

use rustix::fd::{AsRawFd, BorrowedFd};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// A file, whatever it is called and however often it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionKey {
    /// Device the file is on.
    pub device: u64,
    /// Its inode number there.
    pub inode: u64,
}

/// What reaches the medium together at the least.
pub(super) const WORD: u64 = 8;

pub(super) struct Mapped {
    len: usize,
    pub(super) region: RegionKey,
    pub(super) path: PathBuf,
    offset: u64,
}

static MAPPED: Mutex<BTreeMap<usize, Mapped>> = Mutex::new(BTreeMap::new());

/// A test that failed while it recorded must not fail the next one.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

pub(super) fn region_of(file: BorrowedFd<'_>) -> RegionKey {
    let stat = rustix::fs::fstat(file).expect("a recorded descriptor is open");
    RegionKey { device: stat.st_dev, inode: stat.st_ino }
}

pub(super) fn path_of(file: BorrowedFd<'_>) -> PathBuf {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::read_link(link).expect("/proc names a recorded descriptor")
}

/// Calls `note` with each (mapping, file offset, address, length) that `ptr..ptr+len` is mapped from.
pub(super) fn each_place(ptr: *const u8, len: usize, mut note: impl FnMut(&Mapped, u64, usize, usize)) {
    if len == 0 {
        return;
    }
    let mapped = lock(&MAPPED);
    let (start, end) = (ptr as usize, ptr as usize + len);
    let before = mapped.range(..=start).next_back().map_or(start, |(base, _)| *base);
    for (base, place) in mapped.range(before..end) {
        let from = start.max(*base);
        let to = end.min(base + place.len);
        if from < to {
            note(place, place.offset + (from - base) as u64, from, to - from);
        }
    }
}

/// Adds the mapping of `len` bytes of `file` at `base`, in the place of others.
pub(super) fn add_mapping(base: *const u8, len: usize, file: BorrowedFd<'_>, offset: u64) {
    remove_mappings(base, len);
    let place = Mapped { len, region: region_of(file), path: path_of(file), offset };
    lock(&MAPPED).insert(base as usize, place);
}

/// Removes all mappings that `base..base+len` meets.
pub(super) fn remove_mappings(base: *const u8, len: usize) {
    let (start, end) = (base as usize, base as usize + len);
    lock(&MAPPED).retain(|base, place| base + place.len <= start || *base >= end);
}
