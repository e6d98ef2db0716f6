//! A channel that bytes go over one behind the other: one word, which says until when it is taken.
//!
//! It moves by compare and exchange, so no process waits for one that was stopped or killed in the middle. Any session of
//! the store may write anything to it: an impossible time is taken for free, so that no process waits long for it.

use crate::error::MediaError;
use crate::files::create::file_len;
use crate::memory::pages::{Protection, map, touch};
use rustix::fd::AsFd;
use rustix::mm::MapFlags;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the memory that the processes of a store share for this.
pub const CHANNELS_BYTES: u64 = 4096;
/// The page that the processes of a store share: the words of their channels.
#[derive(Debug)]
pub(super) struct Channels {
    page: NonNull<u8>,
}

// SAFETY: the page is reached by atomics only, which any thread may use.
unsafe impl Send for Channels {}
// SAFETY: as for `Send`.
unsafe impl Sync for Channels {}

impl Channels {
    /// Maps the page, which is the beginning of `file`.
    pub(super) fn of_file(file: impl AsFd) -> Result<Channels, MediaError> {
        let found = file_len(file.as_fd())?;
        if found < CHANNELS_BYTES {
            return Err(MediaError::Short { expected: CHANNELS_BYTES, found });
        }
        let len = CHANNELS_BYTES as usize;
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let page = unsafe { map(null_mut(), len, Protection::ReadWrite, MapFlags::SHARED, file, 0)? };
        let channels = Channels { page };
        // SAFETY: just mapped, with that protection.
        unsafe { touch(page.as_ptr(), len, Protection::ReadWrite)? };
        Ok(channels)
    }

    /// The word at `offset`, which is a multiple of 8 inside the page.
    pub(super) fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset < CHANNELS_BYTES && offset.is_multiple_of(size_of::<AtomicU64>() as u64));
        // SAFETY: inside the page and aligned, as was checked, and mapped as long as `self` lives.
        unsafe { AtomicU64::from_ptr(self.page.as_ptr().add(offset as usize).cast()) }
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        // SAFETY: mapped by `of_file`, and no reference to a word outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), CHANNELS_BYTES as usize) };
    }
}

/// A channel that is taken for longer is taken for broken: a write call's bytes need a sixth of that at most.
pub(super) const BACKLOG_NS_MAX: u64 = 1_000_000_000;

/// How long bytes take.
pub(super) fn transfer_ns(bytes: u64, mb_s: u64) -> u64 {
    bytes.saturating_mul(1000).div_ceil(mb_s)
}

/// Takes the channel for `busy_ns`, from `began_ns` on or when it is free; says until when. One that says it is taken
/// for more than `backlog_ns_max` is free.
pub(super) fn take(free_ns: &AtomicU64, began_ns: u64, busy_ns: u64, backlog_ns_max: u64) -> u64 {
    let mut free = free_ns.load(Ordering::Relaxed);
    loop {
        let is_broken = free > began_ns.saturating_add(backlog_ns_max);
        let from_ns = if is_broken { began_ns } else { free.max(began_ns) };
        let until_ns = from_ns.saturating_add(busy_ns);
        match free_ns.compare_exchange_weak(free, until_ns, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return until_ns,
            Err(found) => free = found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_what_the_bandwidth_says() {
        assert_eq!(transfer_ns(4096, 1000), 4096);
        assert_eq!(transfer_ns(64, 32_000), 2);
        assert_eq!(transfer_ns(1, 32_000), 1);
        assert_eq!(transfer_ns(16 << 20, 100), 167_772_160);
    }

    #[test]
    fn later_accesses_wait_for_earlier_ones_and_none_for_nonsense() {
        let free = AtomicU64::new(0);
        assert_eq!(take(&free, 100, 10, BACKLOG_NS_MAX), 110);
        assert_eq!(take(&free, 105, 10, BACKLOG_NS_MAX), 120);
        assert_eq!(take(&free, 200, 10, BACKLOG_NS_MAX), 210);
        free.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(take(&free, 300, 10, BACKLOG_NS_MAX), 310);
        free.store(300 + BACKLOG_NS_MAX, Ordering::Relaxed);
        assert_eq!(take(&free, 300, 10, BACKLOG_NS_MAX), 310 + BACKLOG_NS_MAX);
    }

    #[test]
    fn threads_lose_none_of_each_others_time() {
        let free = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..10_000).for_each(|_| _ = take(&free, 5, 3, BACKLOG_NS_MAX)));
            }
        });
        assert_eq!(free.into_inner(), 5 + 2 * 10_000 * 3);
    }
}
