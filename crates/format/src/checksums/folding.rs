//! CRC32C by folding: a run of bytes is shortened, 256 at a time, to 32 that have the same checksum.
//!
//! Method: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ". Bytes are moved to where later ones
//! lie by two multiplications without carries, modulo the polynomial, and put together with them. The log's copies do the
//! same on their way (`cuesta_media::persist`); this is for bytes that are only read.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_set_epi64x, _mm256_broadcastsi128_si256,
    _mm256_clmulepi64_epi128, _mm256_loadu_si256, _mm256_setzero_si256, _mm256_storeu_si256,
    _mm256_xor_si256, _mm256_zextsi128_si256,
};

/// The factors that move the low and the high half of 128 bits over so many bytes: powers of x modulo
/// the polynomial of CRC32C, their bits in reverse.
#[must_use]
pub const fn multipliers(bytes: u32) -> [u64; 2] {
    const POLYNOMIAL: u32 = 0x1edc_6f41;
    const fn power(exponent: u32) -> u64 {
        let mut rest = 1_u32;
        let mut left = exponent;
        while left > 0 {
            let carry = rest >> 31 != 0;
            rest <<= 1;
            if carry {
                rest ^= POLYNOMIAL;
            }
            left -= 1;
        }
        (rest.reverse_bits() as u64) << 1
    }
    [power(bytes * 8 + 32), power(bytes * 8 - 32)]
}

/// Bytes that are folded at once.
#[cfg(target_arch = "x86_64")]
pub(crate) const BLOCK_BYTES: usize = 256;

#[cfg(target_arch = "x86_64")]
const LANE_BYTES: usize = 32;

/// Takes blocks into the shift register of a CRC32C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,vpclmulqdq,sse4.2")]
pub(crate) fn fold(register: u32, blocks: &[[u8; BLOCK_BYTES]]) -> u32 {
    const OVER_ALL_LANES: [u64; 2] = multipliers(BLOCK_BYTES as u32);
    const OVER_FOUR: [u64; 2] = multipliers(4 * LANE_BYTES as u32);
    const OVER_TWO: [u64; 2] = multipliers(2 * LANE_BYTES as u32);
    const OVER_ONE: [u64; 2] = multipliers(LANE_BYTES as u32);
    if blocks.is_empty() {
        return register;
    }
    let mut lanes = [_mm256_setzero_si256(); BLOCK_BYTES / LANE_BYTES];
    // The register goes into the first bytes only.
    let mut before = _mm256_zextsi128_si256(_mm_cvtsi32_si128(register as i32));
    let by = broadcast(OVER_ALL_LANES);
    for block in blocks {
        let (parts, _) = block.as_chunks::<LANE_BYTES>();
        for (lane, part) in lanes.iter_mut().zip(parts) {
            // SAFETY: the part is as long as what is loaded, which need not be aligned.
            let bytes = unsafe { _mm256_loadu_si256(part.as_ptr().cast()) };
            *lane = moved(*lane, by, bytes);
        }
        lanes[0] = _mm256_xor_si256(lanes[0], before);
        before = _mm256_setzero_si256();
    }
    let by = broadcast(OVER_FOUR);
    let half = [0, 1, 2, 3].map(|lane| moved(lanes[lane], by, lanes[lane + 4]));
    let by = broadcast(OVER_TWO);
    let quarter = [0, 1].map(|lane| moved(half[lane], by, half[lane + 2]));
    let last = moved(quarter[0], broadcast(OVER_ONE), quarter[1]);
    let mut words = [0_u64; LANE_BYTES / 8];
    // SAFETY: the words are as long as what is stored, which need not be aligned.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), last) };
    words.iter().fold(0, |register, &word| _mm_crc32_u64(register, word)) as u32
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn broadcast([low, high]: [u64; 2]) -> __m256i {
    _mm256_broadcastsi128_si256(_mm_set_epi64x(high as i64, low as i64))
}

/// `sum`, moved as `by` says, together with what lies there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,vpclmulqdq")]
#[inline]
fn moved(sum: __m256i, by: __m256i, there: __m256i) -> __m256i {
    let low = _mm256_clmulepi64_epi128(sum, by, 0x00);
    let high = _mm256_clmulepi64_epi128(sum, by, 0x11);
    _mm256_xor_si256(_mm256_xor_si256(low, there), high)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::processor::Feature;

    /// Whether the processor is to fold here or in the library, it does it here.
    #[test]
    fn it_is_what_the_library_says() {
        if !(Feature::Avx2.is_here() && Feature::Vpclmulqdq.is_here() && Feature::Sse42.is_here()) {
            println!("skipped: this processor does not multiply without carries in vectors");
            return;
        }
        let bytes: Vec<u8> = (0..10_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for start in 0..40 {
            let (blocks, _) = bytes[start..].as_chunks();
            for count in 0..=blocks.len() {
                let whole = crc_fast::crc32_iscsi(&bytes[start..start + count * BLOCK_BYTES]);
                // SAFETY: the processor has the instructions.
                let folded = !unsafe { fold(u32::MAX, &blocks[..count]) };
                assert_eq!(folded, whole, "{count} blocks from {start}");
                let (first, second) = blocks[..count].split_at(count / 3);
                // SAFETY: the same.
                let in_two = !unsafe { fold(fold(u32::MAX, first), second) };
                assert_eq!(in_two, whole, "{count} blocks from {start}, in two parts");
            }
        }
    }
}
