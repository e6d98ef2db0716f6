//! aarch64: plain copies with fault repair, for medium `memory`.
//!
//! Write-back to the point of persistence (`dc cvap`) is optional on this architecture and untested by us, so
//! `pmem` is refused here rather than believed.

use super::Summing;
use core::arch::{asm, global_asm};

global_asm!(include_str!("aarch64.s"));

/// Bytes of a cache line, as far as the formats are concerned.
pub const LINE: usize = 64;

/// Whether stores to persistent memory can be made durable here.
pub const CAN_PERSIST: bool = false;

unsafe extern "C" {
    fn cuesta_copy(dst: *mut u8, src: *const u8, len: usize) -> usize;
    fn cuesta_clear(dst: *mut u8, len: usize) -> usize;
    fn cuesta_recover(instruction_pointer: usize) -> usize;
}

/// Copies with ordinary stores; returns how many bytes a fault kept it from copying.
///
/// # Safety
/// Both ranges belong to the caller for the copy, or fault (and a handler that calls [`recover`] is installed).
#[inline(always)]
pub unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise; the routine touches nothing but the two ranges.
    unsafe { cuesta_copy(dst, src, len) }
}

/// As [`copy`]: there is no persistent memory to stream to.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn copy_stream(dst: *mut u8, src: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { cuesta_copy(dst, src, len) }
}

/// What [`copy_summed`] would copy were a multiple of this.
pub const SUM_BLOCK_BYTES: usize = 256;

/// How [`copy_summed`] sums: it does not, here.
#[inline(always)]
pub fn summing() -> Option<Summing> {
    None
}

/// Copies; never called, see [`summing`].
///
/// # Safety
/// As for [`copy`].
pub unsafe fn copy_summed(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    _way: Summing,
    _past_caches: bool,
    _register: &mut u32,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe { cuesta_copy(dst, src, len) }
}

/// Sets bytes to zero; returns how many bytes a fault kept it from clearing.
///
/// # Safety
/// As for the destination of [`copy`].
#[inline]
pub unsafe fn clear(dst: *mut u8, len: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { cuesta_clear(dst, len) }
}

/// Cleans the line at `line` to the point of coherency.
///
/// # Safety
/// `line` is mapped.
#[inline(always)]
pub unsafe fn write_back(line: *const u8) {
    // SAFETY: the line is mapped (caller), and the instruction changes no memory.
    unsafe { asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags)) }
}

/// Orders earlier stores before whatever follows.
#[inline(always)]
pub fn fence() {
    // SAFETY: an instruction without operands; without `nomem` the compiler moves no store across it.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// Where execution goes on after a fault at `instruction_pointer`, if the fault is in one of the copies above.
pub fn recover(instruction_pointer: usize) -> Option<usize> {
    // SAFETY: the routine only compares addresses.
    match unsafe { cuesta_recover(instruction_pointer) } {
        0 => None,
        target => Some(target),
    }
}
