//! Huge pages for files of medium `memory`: a tmpfs page of 4 KiB costs a walk through two page tables (the
//! guest's and the host's) each time it is met anew, which is most of what random access to it costs.
//!
//! They need no permission: `MADV_COLLAPSE` (Linux 6.1) makes 2 MiB of a file one page whatever the system's
//! settings say, and a process that maps the file at an address congruent to the offset gets it mapped by one entry.
//! So mappings are aligned here, always, and the daemon collapses memory when it makes it. A kernel that cannot,
//! or has no such page left, leaves small ones: nothing depends on it but speed.

use super::pages::reserve;
use crate::error::MediaError;
use std::ops::Range;
use std::ptr::NonNull;

/// Bytes of a huge page; files are mapped and given their memory in multiples of it where they can be.
pub const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Since Linux 6.1; not known to the libraries.
const MADV_COLLAPSE: libc::c_int = 25;

/// Takes addresses for a mapping of `len` bytes of a file from `offset` on: such that it can have huge pages, if
/// it is long enough to.
pub(crate) fn reserve_for(offset: u64, len: usize) -> Result<NonNull<u8>, MediaError> {
    let huge = HUGE_PAGE_BYTES as usize;
    if len < huge || !offset.is_multiple_of(HUGE_PAGE_BYTES) {
        return reserve(len);
    }
    let base = reserve(len + huge)?;
    let before = base.align_offset(huge);
    // SAFETY: the addresses were just reserved, `before` is less than the surplus, and no thread uses any of it yet.
    unsafe {
        let start = base.add(before);
        if before > 0 {
            let _ = rustix::mm::munmap(base.as_ptr().cast(), before);
        }
        let _ = rustix::mm::munmap(start.add(len).as_ptr().cast(), huge - before);
        Ok(start)
    }
}

/// The whole huge pages of a range of a file.
pub(crate) fn whole_pages(offset: u64, len: u64) -> impl Iterator<Item = Range<u64>> {
    let first = offset.next_multiple_of(HUGE_PAGE_BYTES);
    let count = (offset + len).saturating_sub(first) / HUGE_PAGE_BYTES;
    (0..count).map(move |page| first + page * HUGE_PAGE_BYTES..first + (page + 1) * HUGE_PAGE_BYTES)
}

/// Makes one page of the file's memory mapped at `start`, if the kernel can, and says whether it is one now; holes in
/// it become zeros, but the first small page must be there. Others may use the memory meanwhile: they wait. For the
/// daemon: the call is made by the C library, which the door intercepts.
///
/// # Safety
/// `start..start + HUGE_PAGE_BYTES` is mapped.
pub(crate) unsafe fn collapse(start: *mut u8) -> bool {
    // SAFETY: the range is mapped (caller), and no byte of it changes.
    unsafe { libc::madvise(start.cast(), HUGE_PAGE_BYTES as usize, MADV_COLLAPSE) == 0 }
}
