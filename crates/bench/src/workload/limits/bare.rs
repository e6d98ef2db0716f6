//! The hardware alone, with nothing between: the bytes of a program copied into a file in memory, and out of it.
//!
//! The file is a memory file, which is one of the kernel's tmpfs, mapped shared and touched, of huge pages if the kernel
//! gives them, as Cuesta's own are. *In* goes past the caches: whole lines by non-temporal stores of the widest kind there is, each
//! record at the line behind the last one's, around the file, and one store fence behind each. Nothing says what the
//! record is, nothing checks it, and no other process could find it. *Out* is `memcpy`.

use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::error::{BenchError, Context};

/// The bytes that a non-temporal store fills at once.
const LINE: usize = 64;
const HUGE_PAGE: usize = 2 << 20;

/// A mapped file in memory.
#[derive(Debug)]
pub struct Bare {
    /// Starts on a huge page, and has `bytes`, with as much in front of it as that took.
    start: NonNull<u8>,
    bytes: usize,
    reserved: (NonNull<u8>, usize),
    next: usize,
}

impl Bare {
    /// A file of `bytes`, whole huge pages of them, all of them there.
    pub fn new(bytes: usize) -> Result<Bare, BenchError> {
        let what = "making a file in memory";
        let file = memfd_create("bare", MemfdFlags::CLOEXEC).context(what)?;
        ftruncate(&file, bytes as u64).context(what)?;
        let reserved = bytes + HUGE_PAGE;
        // SAFETY: new addresses, which no other thread knows yet.
        let address =
            unsafe { mmap_anonymous(std::ptr::null_mut(), reserved, ProtFlags::empty(), MapFlags::PRIVATE) }
                .context(what)?;
        let first = address.cast::<u8>();
        let aligned = first.wrapping_add(first.align_offset(HUGE_PAGE));
        // SAFETY: the file takes the place of addresses that were reserved above, and of nothing else.
        let mapped = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(aligned.cast(), bytes, access, MapFlags::SHARED | MapFlags::FIXED, &file, 0)
        };
        let bare = Bare {
            start: NonNull::new(aligned).expect("the kernel maps nothing at 0"),
            bytes,
            reserved: (NonNull::new(first).expect("the kernel maps nothing at 0"), reserved),
            next: 0,
        };
        mapped.context(what)?;
        for page in (0..bytes).step_by(HUGE_PAGE) {
            let page = aligned.wrapping_add(page);
            // SAFETY: the range is mapped writable. Where the kernel has no huge pages the small ones do.
            unsafe {
                page.write_volatile(1);
                let _ = libc::madvise(page.cast(), HUGE_PAGE, libc::MADV_COLLAPSE);
                page.write_bytes(1, HUGE_PAGE);
            }
        }
        Ok(bare)
    }

    /// Copies a record past the caches, behind the last one, and fences. It is no longer than the file.
    #[inline]
    pub fn append(&mut self, record: &[u8]) {
        assert!(record.len() <= self.bytes);
        if self.next + record.len() > self.bytes {
            self.next = 0;
        }
        // SAFETY: there is room for the record from there on, which starts at a line.
        unsafe { copy_past_caches(self.start.as_ptr().add(self.next), record) };
        self.next += record.len().next_multiple_of(LINE);
    }

    /// Copies out what lies at `at`, as far as `out` reaches.
    #[inline]
    pub fn read(&self, at: usize, out: &mut [u8]) {
        assert!(at <= self.bytes && out.len() <= self.bytes - at);
        // SAFETY: so much lies in the file from there on, and `out` is the caller's.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr().add(at), out.as_mut_ptr(), out.len()) };
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let (first, bytes) = self.reserved;
        // SAFETY: the range was reserved for the file, and only this value has its address. It cannot fail on such a range.
        let _ = unsafe { munmap(first.as_ptr().cast(), bytes) };
    }
}

/// # Safety
/// `to` starts a line and has room for `record`.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_past_caches(to: *mut u8, record: &[u8]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    let whole = record.len() / LINE * LINE;
    // SAFETY: the caller's promise; the instructions are those every x86-64 has, or were asked for.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            copy_lines(to, record.as_ptr(), whole);
        } else {
            for at in (0..whole).step_by(16) {
                _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(record.as_ptr().add(at).cast()));
            }
        }
        to.add(whole).copy_from_nonoverlapping(record.as_ptr().add(whole), record.len() - whole);
        _mm_sfence();
    }
}

/// # Safety
/// `to` starts a line and has room for `bytes`, whole lines, that lie at `from`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn copy_lines(to: *mut u8, from: *const u8, bytes: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};

    for at in (0..bytes).step_by(LINE) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast())) };
    }
}

/// Ordinary stores, where the standard library has no others.
///
/// # Safety
/// `to` has room for `record`.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn copy_past_caches(to: *mut u8, record: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(record.as_ptr(), record.len()) };
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_lie_behind_each_other_and_around_the_file() {
        let mut bare = Bare::new(HUGE_PAGE).unwrap();
        let record: Vec<u8> = (0..HUGE_PAGE / 2 - 100).map(|n| n as u8 | 1).collect();
        let mut out = vec![0; record.len()];
        for at in [0, record.len().next_multiple_of(LINE), 0] {
            bare.append(&record);
            bare.read(at, &mut out);
            assert_eq!(out, record);
            out.fill(0);
        }
    }
}
