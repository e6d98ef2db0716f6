//! CRC32C, which everything at rest carries.
//!
//! Headers and small bodies are checksummed with each operation: for those the processor's own instruction, eight
//! bytes at a time, beats a call that first has to choose its method. Longer runs are folded many bytes at a time: by the
//! library, or here, where the processor has the instructions for that in vectors but not AVX-512, which is what the library
//! uses them with.
//!
//! Choosing its method asks the processor a dozen questions, each of which leaves a virtual machine: 50 µs there. A
//! program that writes little is spared them.

#[cfg(target_arch = "x86_64")]
use super::folding;
#[cfg(target_arch = "x86_64")]
use super::processor::Feature;
use crc_fast::{CrcAlgorithm, Digest};

/// Up to so many bytes the instruction is faster (measured: 60 bytes in 4 ns rather than 9, 128 in 8 rather than 11,
/// 256 in 17 rather than 29).
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES_MAX: usize = 256;

/// So many longer ones are made by the instruction before folding is set up.
#[cfg(target_arch = "x86_64")]
const LONGER_FIRST: u32 = 64;

/// CRC32C of `bytes`.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Some(register) = by_instructions(u32::MAX, bytes) {
        return !register;
    }
    crc_fast::crc32_iscsi(bytes)
}

/// A CRC32C of bytes that come one part after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32c(u32);

impl Crc32c {
    /// Of no bytes.
    #[must_use]
    pub const fn new() -> Crc32c {
        Crc32c(u32::MAX)
    }

    /// Goes on with the shift register that another computation left.
    #[must_use]
    pub const fn from_register(register: u32) -> Crc32c {
        Crc32c(register)
    }

    /// The shift register, for another computation to go on with.
    #[must_use]
    pub const fn register(self) -> u32 {
        self.0
    }

    /// The checksum of these bytes behind those before.
    #[inline]
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Crc32c {
        #[cfg(target_arch = "x86_64")]
        if let Some(register) = by_instructions(self.0, bytes) {
            return Crc32c(register);
        }
        let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(self.0));
        digest.update(bytes);
        Crc32c(!(digest.finalize() as u32))
    }

    /// The checksum.
    #[must_use]
    pub const fn value(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c::new()
    }
}

/// The shift register behind `bytes`, where the library is not the faster way to it.
#[cfg(target_arch = "x86_64")]
#[inline]
fn by_instructions(register: u32, bytes: &[u8]) -> Option<u32> {
    match ability() {
        Ability::Folds if bytes.len() >= folding::BLOCK_BYTES => {
            let (blocks, rest) = bytes.as_chunks();
            // SAFETY: the processor has the instructions of both, as was just asked.
            Some(unsafe { short(folding::fold(register, blocks), rest) })
        }
        Ability::Folds | Ability::Instruction if bytes.len() <= SHORT_BYTES_MAX || is_among_the_first() => {
            // SAFETY: the processor has the instruction, as was just asked.
            Some(unsafe { short(register, bytes) })
        }
        _ => None,
    }
}

/// Counts the longer ones, as long as it matters.
#[cfg(target_arch = "x86_64")]
#[inline]
fn is_among_the_first() -> bool {
    use std::sync::atomic::{AtomicU32, Ordering};
    static LONGER: AtomicU32 = AtomicU32::new(0);
    let seen = LONGER.load(Ordering::Relaxed);
    // One that is lost between two threads is no matter.
    seen < LONGER_FIRST && {
        LONGER.store(seen + 1, Ordering::Relaxed);
        true
    }
}

/// The instructions that the processor has for it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Ability {
    Nothing = 1,
    /// An instruction that takes eight bytes.
    Instruction,
    /// And those that fold, in vectors, and the library does not use them.
    Folds,
}

#[cfg(target_arch = "x86_64")]
impl Ability {
    fn of_this_processor() -> Ability {
        let library_folds_more = Feature::Avx512.is_here();
        let folds = Feature::Avx2.is_here() && Feature::Vpclmulqdq.is_here();
        match Feature::Sse42.is_here() {
            false => Ability::Nothing,
            true if folds && !library_folds_more => Ability::Folds,
            true => Ability::Instruction,
        }
    }
}

/// Asked once.
#[cfg(target_arch = "x86_64")]
#[inline]
fn ability() -> Ability {
    use std::sync::atomic::{AtomicU8, Ordering};
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    #[cold]
    fn ask() -> Ability {
        let found = Ability::of_this_processor();
        KNOWN.store(found as u8, Ordering::Relaxed);
        found
    }
    const INSTRUCTION: u8 = Ability::Instruction as u8;
    const FOLDS: u8 = Ability::Folds as u8;
    const NOTHING: u8 = Ability::Nothing as u8;
    match KNOWN.load(Ordering::Relaxed) {
        INSTRUCTION => Ability::Instruction,
        FOLDS => Ability::Folds,
        NOTHING => Ability::Nothing,
        _ => ask(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[inline]
fn short(register: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let crc =
        words.iter().fold(u64::from(register), |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
    let (halves, rest) = rest.as_chunks::<4>();
    let crc = halves.iter().fold(crc as u32, |crc, half| _mm_crc32_u32(crc, u32::from_le_bytes(*half)));
    rest.iter().fold(crc, |crc, &byte| _mm_crc32_u8(crc, byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_crc32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn parts_have_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for cut in [0, 1, 63, 256, 257, 1000, 4999, 5000] {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(Crc32c::new().with(first).with(second).value(), crc32c(&bytes), "cut at {cut}");
        }
    }

    #[test]
    fn both_ways_agree_at_every_length() {
        let bytes: Vec<u8> = (0..1200_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for start in 0..9 {
            for end in start..bytes.len() {
                assert_eq!(crc32c(&bytes[start..end]), crc_fast::crc32_iscsi(&bytes[start..end]));
            }
        }
    }
}
