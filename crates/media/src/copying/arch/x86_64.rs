//! x86-64: the copy routines of `x86_64.s`, cache-line write-back and fences, chosen once by what the CPU has.

use super::Summing;
use core::arch::x86_64::{_mm_clflush, _mm_crc32_u64};
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU8, Ordering};
use cuesta_format::folding::multipliers;
use cuesta_format::processor::Feature;

global_asm!(include_str!("x86_64.s"));

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// What [`copy_summed`] copies is a multiple of this.
pub const SUM_BLOCK_BYTES: usize = 256;

/// Whether stores to persistent memory can be made durable here.
pub const CAN_PERSIST: bool = true;

unsafe extern "C" {
    fn cuesta_copy_avx(dst: *mut u8, src: *const u8, len: usize) -> usize;
    fn cuesta_copy_sse2(dst: *mut u8, src: *const u8, len: usize) -> usize;
    fn cuesta_copy_stream_avx512(dst: *mut u8, src: *const u8, len: usize) -> usize;
    fn cuesta_copy_stream_avx(dst: *mut u8, src: *const u8, len: usize) -> usize;
    fn cuesta_copy_stream_sse2(dst: *mut u8, src: *const u8, len: usize) -> usize;
    fn cuesta_copy_sum_avx512(
        dst: *mut u8,
        src: *const u8,
        len: usize,
        sum: *mut Sum,
        by: *const Folds,
    ) -> usize;
    fn cuesta_copy_sum_stream_avx512(
        dst: *mut u8,
        src: *const u8,
        len: usize,
        sum: *mut Sum,
        by: *const Folds,
    ) -> usize;
    fn cuesta_copy_sum_avx2(
        dst: *mut u8,
        src: *const u8,
        len: usize,
        sum: *mut Sum,
        by: *const Folds,
    ) -> usize;
    fn cuesta_copy_sum_stream_avx2(
        dst: *mut u8,
        src: *const u8,
        len: usize,
        sum: *mut Sum,
        by: *const Folds,
    ) -> usize;
    fn cuesta_copy_sum_avx(
        dst: *mut u8,
        src: *const u8,
        len: usize,
        sum: *mut Sum,
        by: *const Folds,
    ) -> usize;
    fn cuesta_copy_sum_stream_avx(
        dst: *mut u8,
        src: *const u8,
        len: usize,
        sum: *mut Sum,
        by: *const Folds,
    ) -> usize;
    fn cuesta_clear(dst: *mut u8, len: usize) -> usize;
    fn cuesta_recover(instruction_pointer: usize) -> usize;
}

const KNOWN: u8 = 1;
const AVX: u8 = 2;
const AVX512: u8 = 4;
const CLFLUSHOPT: u8 = 8;
const CLWB: u8 = 16;
/// The three ways to sum, by what they have to have.
const SUMS_AVX512: u8 = 32;
const SUMS_AVX2: u8 = 64;
const SUMS_AVX: u8 = 128;

/// Bytes that have the checksum of all that were copied before.
type Sum = [u8; 64];

/// What 128 bits are multiplied by, low half and high half, to move them over 256, 192, 128, 64, 32 and 16 bytes.
type Folds = [[u64; 2]; 6];

static FOLDS: Folds =
    [multipliers(256), multipliers(192), multipliers(128), multipliers(64), multipliers(32), multipliers(16)];

static FEATURES: AtomicU8 = AtomicU8::new(0);

#[inline(always)]
fn has(feature: u8) -> bool {
    // Detection gives the same answer on every thread, so racing first calls are harmless.
    let known = FEATURES.load(Ordering::Relaxed);
    let features = if known == 0 { detect() } else { known };
    features & feature != 0
}

#[cold]
fn detect() -> u8 {
    let mut features = KNOWN;
    for (feature, bit) in [
        (Feature::Avx, AVX),
        (Feature::Avx512, AVX512),
        (Feature::Clflushopt, CLFLUSHOPT),
        (Feature::Clwb, CLWB),
    ] {
        if feature.is_here() {
            features |= bit;
        }
    }
    // The rest of a sum takes SSE 4.2.
    if Feature::Sse42.is_here() {
        for (vectors, multiplies, bit) in [
            (Feature::Avx512, Feature::Vpclmulqdq, SUMS_AVX512),
            (Feature::Avx2, Feature::Vpclmulqdq, SUMS_AVX2),
            // AVX would do; processors without AVX2 multiply too slowly.
            (Feature::Avx2, Feature::Pclmulqdq, SUMS_AVX),
        ] {
            if vectors.is_here() && multiplies.is_here() {
                features |= bit;
            }
        }
    }
    FEATURES.store(features, Ordering::Relaxed);
    features
}

/// Copies with ordinary stores; returns how many bytes a fault kept it from copying.
///
/// # Safety
/// Both ranges belong to the caller for the copy, or fault (and a handler that calls [`recover`] is installed).
#[inline(always)]
pub unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise; the routine touches nothing but the two ranges.
    unsafe { if has(AVX) { cuesta_copy_avx(dst, src, len) } else { cuesta_copy_sse2(dst, src, len) } }
}

/// Copies whole lines past the caches; returns how many bytes a fault kept it from copying.
///
/// # Safety
/// As for [`copy`]; `dst` is aligned to [`LINE`] and `len` a multiple of it, not zero.
#[inline(always)]
pub unsafe fn copy_stream(dst: *mut u8, src: *const u8, len: usize) -> usize {
    debug_assert!((dst as usize).is_multiple_of(LINE) && len.is_multiple_of(LINE) && len > 0);
    // SAFETY: the caller's promise, alignment included.
    unsafe {
        if has(AVX512) {
            cuesta_copy_stream_avx512(dst, src, len)
        } else if has(AVX) {
            cuesta_copy_stream_avx(dst, src, len)
        } else {
            cuesta_copy_stream_sse2(dst, src, len)
        }
    }
}

/// How [`copy_summed`] sums here, if it can.
#[inline(always)]
pub fn summing() -> Option<Summing> {
    match () {
        () if has(SUMS_AVX512) => Some(Summing::Lines),
        () if has(SUMS_AVX2) => Some(Summing::Vectors),
        () if has(SUMS_AVX) => Some(Summing::Words),
        () => None,
    }
}

/// Copies, and takes what was copied into the register of a CRC32C, in one pass; past the caches, if asked to.
/// Returns how many bytes a fault kept it from copying; the register is lost then.
///
/// # Safety
/// As for [`copy`]; `len` is a multiple of [`SUM_BLOCK_BYTES`], not zero; `way` is [`summing`]; `dst` is aligned to [`LINE`]
/// if the copy goes past the caches.
#[inline]
pub unsafe fn copy_summed(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    way: Summing,
    past_caches: bool,
    register: &mut u32,
) -> usize {
    debug_assert!(len.is_multiple_of(SUM_BLOCK_BYTES) && len > 0);
    let routine = match (way, past_caches) {
        (Summing::Lines, false) => cuesta_copy_sum_avx512,
        (Summing::Lines, true) => cuesta_copy_sum_stream_avx512,
        (Summing::Vectors, false) => cuesta_copy_sum_avx2,
        (Summing::Vectors, true) => cuesta_copy_sum_stream_avx2,
        (Summing::Words, false) => cuesta_copy_sum_avx,
        (Summing::Words, true) => cuesta_copy_sum_stream_avx,
    };
    // SAFETY: the caller's promise, which includes that the CPU has the instructions.
    unsafe { copy_summed_by(routine, dst, src, len, register) }
}

type SummingRoutine = unsafe extern "C" fn(*mut u8, *const u8, usize, *mut Sum, *const Folds) -> usize;

/// # Safety
/// As for [`copy_summed`], of the routine that is given.
#[inline(always)]
unsafe fn copy_summed_by(
    routine: SummingRoutine,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    register: &mut u32,
) -> usize {
    let mut sum = [0; 64];
    sum[..4].copy_from_slice(&register.to_le_bytes());
    // SAFETY: the caller's promise; callers that sum have SSE 4.2.
    unsafe {
        let left = routine(dst, src, len, &mut sum, &FOLDS);
        *register = remainder(&sum);
        left
    }
}

#[target_feature(enable = "sse4.2")]
#[inline]
fn remainder(sum: &Sum) -> u32 {
    let (words, _) = sum.as_chunks::<8>();
    words.iter().fold(0, |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word))) as u32
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

/// Starts the write-back of the line at `line`; the next [`fence`] waits for it.
///
/// # Safety
/// `line` is mapped.
#[inline(always)]
pub unsafe fn write_back(line: *const u8) {
    // SAFETY: the line is mapped (caller), the instruction is one this CPU has, and it changes no memory.
    unsafe {
        if has(CLWB) {
            asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
        } else if has(CLFLUSHOPT) {
            asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
        } else {
            _mm_clflush(line);
        }
    }
}

/// Waits for stores, streamed or written back, to be durable.
#[inline(always)]
pub fn fence() {
    // SAFETY: an instruction without operands that every x86-64 has; without `nomem` the compiler moves no
    // store across it.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) }
}

/// Where execution goes on after a fault at `instruction_pointer`, if the fault is in one of the copies above.
pub fn recover(instruction_pointer: usize) -> Option<usize> {
    // SAFETY: the routine only compares addresses.
    match unsafe { cuesta_recover(instruction_pointer) } {
        0 => None,
        target => Some(target),
    }
}

#[cfg(test)]
mod tests {
    //! The routines this CPU would not choose are used by others: all of them are tried here.

    use super::*;
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

    type Routine = unsafe extern "C" fn(*mut u8, *const u8, usize) -> usize;

    fn routines() -> Vec<(&'static str, Routine, usize)> {
        let mut routines: Vec<(&'static str, Routine, usize)> =
            vec![("sse2", cuesta_copy_sse2, 1), ("stream sse2", cuesta_copy_stream_sse2, LINE)];
        if has(AVX) {
            routines.push(("avx", cuesta_copy_avx, 1));
            routines.push(("stream avx", cuesta_copy_stream_avx, LINE));
        }
        if has(AVX512) {
            routines.push(("stream avx512", cuesta_copy_stream_avx512, LINE));
        }
        routines
    }

    /// Four pages, of which the last is a hole; leaked, so that its addresses stay what they are.
    fn pages_before_a_hole() -> *mut u8 {
        // SAFETY: new addresses, and the last page is ours to take away.
        unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let base =
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), 4 << 12, access, MapFlags::PRIVATE).unwrap();
            let hole = base.cast::<u8>().add(3 << 12);
            rustix::mm::mprotect(hole.cast(), 1 << 12, MprotectFlags::empty()).unwrap();
            hole
        }
    }

    #[test]
    fn every_routine_copies_every_length_and_stops_at_a_hole() {
        crate::install_fault_handler();
        let hole = pages_before_a_hole();
        let mut target = vec![0u8; 4096];
        let start = target.as_ptr().align_offset(LINE);
        for (name, routine, unit) in routines() {
            for len in (unit..=1200).step_by(unit) {
                for good in [len, len - 1, len / 2, len / 3, 0] {
                    let src = hole.wrapping_sub(good);
                    // SAFETY: the bytes before the hole are ours and mapped; the target has room; reading
                    // the hole faults, for which a handler is installed.
                    unsafe {
                        for index in 0..good {
                            src.add(index).write((index * 3 + len) as u8);
                        }
                        let dst = target.as_mut_ptr().add(start);
                        dst.write_bytes(0xee, len + 1);
                        assert_eq!(routine(dst, src, len), len - good, "{name}, {good} of {len}");
                    }
                    let written = &target[start..=start + len];
                    let right = (0..good).all(|index| written[index] == (index * 3 + len) as u8);
                    assert!(right && written[len] == 0xee, "{name}, {good} of {len}");
                }
            }
        }
    }

    fn summing_routines() -> Vec<(&'static str, SummingRoutine)> {
        let ways: [(&str, u8, SummingRoutine); 6] = [
            ("avx512", SUMS_AVX512, cuesta_copy_sum_avx512),
            ("stream avx512", SUMS_AVX512, cuesta_copy_sum_stream_avx512),
            ("avx2", SUMS_AVX2, cuesta_copy_sum_avx2),
            ("stream avx2", SUMS_AVX2, cuesta_copy_sum_stream_avx2),
            ("avx", SUMS_AVX, cuesta_copy_sum_avx),
            ("stream avx", SUMS_AVX, cuesta_copy_sum_stream_avx),
        ];
        let (here, missing): (Vec<_>, Vec<_>) = ways.into_iter().partition(|&(_, needs, _)| has(needs));
        missing.iter().for_each(|(name, ..)| println!("skipped: this CPU has no {name} that sums"));
        here.into_iter().map(|(name, _, routine)| (name, routine)).collect()
    }

    #[test]
    fn summing_copies_copy_and_sum_and_stop_at_a_hole() {
        crate::install_fault_handler();
        let hole = pages_before_a_hole();
        let mut target = vec![0u8; 8192];
        let start = target.as_ptr().align_offset(LINE);
        let lengths = (SUM_BLOCK_BYTES..=4096).step_by(SUM_BLOCK_BYTES);
        for (len, (name, routine)) in
            lengths.flat_map(|len| summing_routines().into_iter().map(move |way| (len, way)))
        {
            for good in [len, len - 1, len / 2, 3, 0] {
                let src = hole.wrapping_sub(good);
                let bytes: Vec<u8> = (0..good).map(|index| (index * index / 7 + len) as u8).collect();
                let mut register = 0x1234_5678;
                let before = cuesta_format::entry::Crc32c::from_register(register);
                // SAFETY: the bytes before the hole are ours and mapped; the target has room; reading the hole
                // faults, for which a handler is installed.
                unsafe {
                    src.copy_from_nonoverlapping(bytes.as_ptr(), good);
                    let dst = target.as_mut_ptr().add(start);
                    dst.write_bytes(0xee, len + 1);
                    let left = copy_summed_by(routine, dst, src, len, &mut register);
                    assert_eq!(left, len - good, "{name}, {good} of {len}");
                }
                assert!(
                    target[start..][..good] == bytes && target[start + len] == 0xee,
                    "{name}, {good} of {len}"
                );
                if good == len {
                    assert_eq!(register, before.with(&bytes).register(), "{name}, {len}");
                }
            }
        }
    }
}
