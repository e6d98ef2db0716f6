//! Making stores durable: the copy, write-back and fence of each medium.
//!
//! The rule everybody relies on: bytes are durable once they were stored with [`store_through`] (or stored
//! and [`flush`]ed) and the same thread then passed a [`fence`]. Medium `memory` keeps that rule with cheaper
//! instructions, because the death of a process loses no caches: its copies stay in the cache and its
//! fences only order. The recorder sees the same events on both, so what is crash-tested on `memory` is the
//! order that `pmem` will run with.
//!
//! Where the platform writes caches back when the power goes (eADR), `pmem` has the cheaper instructions, too, once a
//! store was [`announce`]d as such.
//!
//! On medium `block` no instruction makes a store durable: these functions only store and order, as on `memory`, and the
//! kernel is asked by [`crate::SharedMemory::fence`] and [`crate::SharedMemory::sync`].

use crate::copying::arch::{self, Summing};
use crate::planted;
use crate::recorder;
use cuesta_format::entry::Crc32c;
use cuesta_format::{Medium, PersistenceDomain};
use std::sync::atomic::{AtomicU8, Ordering};

pub use crate::copying::arch::LINE;

/// On medium `memory`, copies this long go past the caches. Measured with bytes that are not zero, which memory takes
/// twice as fast (docs/decisions/0005): in a ring of 64 MiB, 16 KiB cost 580 ns through the cache and 690 past it,
/// 64 KiB 3.6 and 2.5 us; in one that stays in the cache, 16 KiB cost 290, and the digest reads them from there.
const STREAM_BYTES_MIN: usize = 64 << 10;

/// From how many bytes on a copy into a log is made in one pass with its checksum, and from how many on that goes past the
/// caches. Shorter ones lie in the first cache when they are summed, and past the caches no store waits for its line to
/// come from a memory that others use as well (docs/decisions/0005, 0038).
const fn thresholds(way: Summing) -> (usize, usize) {
    match way {
        Summing::Lines => (ONE_PASS_BYTES_MIN, 16 << 10),
        Summing::Vectors => (ONE_PASS_BYTES_MIN, 4 << 10),
        // It takes longer than the library, but spares a second pass over memory.
        Summing::Words => (16 << 10, 16 << 10),
    }
}

/// Least of those; so many bytes are summed on their way whenever it is past the caches: behind it they are far.
const ONE_PASS_BYTES_MIN: usize = 512;

/// Where what is stored to persistent memory is durable, as far as it was announced.
struct Caches(AtomicU8);

impl Caches {
    /// No store was announced: lines are written back.
    const UNKNOWN: u8 = 0;
    /// All that were announced are durable in a cache.
    const PERSIST: u8 = 1;
    /// Of one that was announced lines have to be written back.
    const ARE_LOST: u8 = 2;

    fn announce(&self, domain: PersistenceDomain) {
        let found = match domain {
            PersistenceDomain::CpuCache => Caches::PERSIST,
            PersistenceDomain::MemoryController => Caches::ARE_LOST,
        };
        self.0.fetch_max(found, Ordering::Relaxed);
    }

    #[inline(always)]
    fn persist(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Caches::PERSIST
    }
}

/// One for the process: where stores of both kinds are open, all are treated as the weaker one.
static CACHES: Caches = Caches(AtomicU8::new(Caches::UNKNOWN));

/// Says where stores to a medium are durable, before anything is stored there.
pub fn announce(medium: Medium, domain: PersistenceDomain) {
    if medium == Medium::Pmem {
        CACHES.announce(domain);
    }
}

/// Whether a store is durable only when its line is written back.
#[inline(always)]
fn needs_write_back(medium: Medium) -> bool {
    medium == Medium::Pmem && !CACHES.persist()
}

/// Stores through the cache: visible at once, durable only after [`flush`] and [`fence`].
/// Returns the bytes a fault kept it from storing.
///
/// # Safety
/// `dst..dst+len` is mapped writable, and `src..src+len` readable; either may fault if a handler that calls
/// [`crate::copying::user_copy::recover`] is installed. Other threads and processes may access both meanwhile: the
/// copy is made by assembly the compiler assumes nothing about, and may then be torn at any byte.
#[inline]
pub unsafe fn store(dst: *mut u8, src: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise is the callee's.
    let left = unsafe { arch::copy(dst, src, len) };
    recorder::on_store(dst, len - left);
    left
}

/// Stores so that the next [`fence`] makes it durable. Returns the bytes a fault kept it from storing.
///
/// # Safety
/// As for [`store`].
#[inline]
pub unsafe fn store_through(medium: Medium, dst: *mut u8, src: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise is the callees'.
    let left = unsafe {
        if len < STREAM_BYTES_MIN && !needs_write_back(medium) {
            arch::copy(dst, src, len)
        } else {
            copy_past_caches(dst, src, len, needs_write_back(medium))
        }
    };
    recorder::on_store(dst, len - left);
    note_flush(medium, dst, durable_part(dst, len - left));
    left
}

/// As [`store_through`], and takes what was stored into a checksum: in one pass, where the CPU can. Returns the bytes
/// a fault kept it from storing; the checksum is lost then.
///
/// # Safety
/// As for [`store`], and no other thread writes the destination.
#[inline]
pub unsafe fn store_through_summed(
    medium: Medium,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    sum: &mut Crc32c,
) -> usize {
    let mut at = 0;
    if let Some((way, past_caches)) = one_pass(dst, len, needs_write_back(medium)) {
        let whole = len / arch::SUM_BLOCK_BYTES * arch::SUM_BLOCK_BYTES;
        let mut register = sum.register();
        // SAFETY: the caller's promise; the length is a multiple and the CPU able, as was checked.
        let left = unsafe { arch::copy_summed(dst, src, whole, way, past_caches, &mut register) };
        recorder::on_store(dst, whole - left);
        note_flush(medium, dst, whole - left);
        if left > 0 {
            return len - whole + left;
        }
        *sum = Crc32c::from_register(register);
        at = whole;
    }
    // SAFETY: the caller's promise, for the rest; no other thread writes the stored bytes.
    unsafe {
        let left = store_through(medium, dst.add(at), src.add(at), len - at);
        *sum = sum.with(std::slice::from_raw_parts(dst.add(at), len - at - left));
        left
    }
}

/// Copies through the cache, and adds the copied bytes to a checksum: in one pass, where the CPU can. Returns the bytes a
/// fault kept it from copying; the checksum is lost then.
///
/// # Safety
/// As for [`store`], and no other thread writes the destination.
#[inline]
pub unsafe fn copy_summed(dst: *mut u8, src: *const u8, len: usize, sum: &mut Crc32c) -> usize {
    let mut at = 0;
    if let Some(way) = arch::summing().filter(|_| len >= ONE_PASS_BYTES_MIN) {
        let whole = len / arch::SUM_BLOCK_BYTES * arch::SUM_BLOCK_BYTES;
        let mut register = sum.register();
        // SAFETY: the caller's promise; the length is a multiple and the CPU able, as was checked.
        let left = unsafe { arch::copy_summed(dst, src, whole, way, false, &mut register) };
        if left > 0 {
            return len - whole + left;
        }
        *sum = Crc32c::from_register(register);
        at = whole;
    }
    // SAFETY: the caller's promise, for the rest; no other thread writes the copied bytes.
    unsafe {
        let left = arch::copy(dst.add(at), src.add(at), len - at);
        *sum = sum.with(std::slice::from_raw_parts(dst.add(at), len - at - left));
        left
    }
}

/// How a copy is summed on its way, if it is, and whether it goes past the caches.
#[inline(always)]
fn one_pass(dst: *mut u8, len: usize, writes_back: bool) -> Option<(Summing, bool)> {
    let way = if len >= ONE_PASS_BYTES_MIN { arch::summing()? } else { return None };
    let aligned = (dst as usize).is_multiple_of(LINE);
    let (summed, past_caches) = thresholds(way);
    match writes_back {
        true => aligned.then_some((way, true)),
        false => (len >= summed).then_some((way, aligned && len >= past_caches)),
    }
}

/// The bytes before the first line boundary, those in whole lines, and those behind the last boundary.
#[inline(always)]
fn parts(dst: *mut u8, len: usize) -> (usize, usize, usize) {
    let head = dst.align_offset(LINE).min(len);
    let whole = (len - head) / LINE * LINE;
    (head, whole, len - head - whole)
}

/// How much of a copy is written back: all of it, unless the bug of the forgotten tail is planted.
#[inline(always)]
fn durable_part(dst: *mut u8, len: usize) -> usize {
    if planted::active(planted::Bug::UnflushedTail) { len - parts(dst, len).2 } else { len }
}

/// Copies past the caches: whole lines with non-temporal stores, the unaligned ends with ordinary stores
/// that are written back. Durable after the next [`fence`]. Returns the bytes a fault kept it from copying.
///
/// # Safety
/// As for [`store`].
#[inline]
pub unsafe fn copy_non_temporal(dst: *mut u8, src: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise is the callee's.
    unsafe { copy_past_caches(dst, src, len, true) }
}

/// As [`copy_non_temporal`]; the ends are written back if they have to be.
///
/// # Safety
/// As for [`store`].
#[inline]
unsafe fn copy_past_caches(dst: *mut u8, src: *const u8, len: usize, writes_back: bool) -> usize {
    let (head, whole, tail) = parts(dst, len);
    // SAFETY: the three parts lie inside the caller's ranges; the middle one starts on a line. A part that
    // was not copied because of a fault is not written back beyond what was.
    unsafe {
        if head > 0 {
            let left = arch::copy(dst, src, head);
            if writes_back {
                write_back(dst, head - left);
            }
            if left > 0 {
                return len - head + left;
            }
        }
        if whole > 0 {
            let left = arch::copy_stream(dst.add(head), src.add(head), whole);
            if left > 0 {
                return tail + left;
            }
        }
        if tail > 0 {
            let at = head + whole;
            let left = arch::copy(dst.add(at), src.add(at), tail);
            if writes_back && !planted::active(planted::Bug::UnflushedTail) {
                write_back(dst.add(at), tail - left);
            }
            return left;
        }
    }
    0
}

/// Starts the write-back of every line of `ptr..ptr+len`; durable after the next [`fence`].
///
/// # Safety
/// The range is mapped.
#[inline]
pub unsafe fn flush(medium: Medium, ptr: *const u8, len: usize) {
    if needs_write_back(medium) {
        // SAFETY: the range is mapped (caller).
        unsafe { write_back(ptr, len) };
    }
    note_flush(medium, ptr, len);
}

#[inline(always)]
fn note_flush(medium: Medium, ptr: *const u8, len: usize) {
    if medium != Medium::Block {
        recorder::on_flush(ptr, len);
    }
}

/// # Safety
/// The range is mapped.
#[inline]
unsafe fn write_back(ptr: *const u8, len: usize) {
    if len == 0 {
        return;
    }
    let end = ptr as usize + len;
    let mut line = ptr.wrapping_sub(ptr as usize % LINE);
    while (line as usize) < end {
        // SAFETY: each line holds a byte of the range, so its page is mapped.
        unsafe { arch::write_back(line) };
        line = line.wrapping_add(LINE);
    }
}

/// Makes this thread's flushed stores durable, and orders them before every later load as well as store.
///
/// A fenced session needs the second half: an entry is visible to a scan of the log before its
/// writer re-reads the generation. A store fence alone lets that load pass the stores.
#[inline]
pub fn fence(medium: Medium) {
    if medium == Medium::Pmem {
        arch::fence();
    }
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    if medium != Medium::Block {
        recorder::on_fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_back_unless_every_store_is_durable_without() {
        let after = |domains: &[PersistenceDomain]| {
            let caches = Caches(AtomicU8::new(Caches::UNKNOWN));
            domains.iter().for_each(|&domain| caches.announce(domain));
            caches.persist()
        };
        let (cache, controller) = (PersistenceDomain::CpuCache, PersistenceDomain::MemoryController);
        assert!(after(&[cache]) && after(&[cache, cache]));
        assert!(!after(&[]) && !after(&[controller]));
        assert!(!after(&[cache, controller]) && !after(&[controller, cache]));
    }
}
