//! What this processor can do that not every x86-64 can.
//!
//! The C library asked when the program started. Asking again takes some fifteen `cpuid`, each of which leaves a virtual
//! machine: as long as all the rest of a short program's work on the store.

/// The C library's copy of one leaf of the processor's features (`struct cpuid_feature`).
#[repr(C)]
struct Leaf {
    /// eax, ebx, ecx, edx as the processor gave them.
    registers: [u32; 4],
    /// The same, without what the system does not support.
    active: [u32; 4],
}

unsafe extern "C" {
    fn __x86_get_cpuid_feature_leaf(leaf: u32) -> *const Leaf;
}

const LEAF_1: u32 = 0;
const LEAF_7: u32 = 1;
const EBX: usize = 1;
const ECX: usize = 2;

/// A feature, by its place in the C library's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Feature {
    /// The instruction for CRC32C.
    Sse42,
    /// 256-bit vectors, of floating-point numbers.
    Avx,
    /// 256-bit vectors, of integers as well.
    Avx2,
    /// 512-bit vectors.
    Avx512,
    /// Multiplication of polynomials.
    Pclmulqdq,
    /// The same in vectors of more than 128 bits.
    Vpclmulqdq,
    /// Writing a line back and dropping it, not ordered with others.
    Clflushopt,
    /// Writing a line back.
    Clwb,
}

impl Feature {
    fn place(self) -> (u32, usize, u32) {
        match self {
            Feature::Sse42 => (LEAF_1, ECX, 20),
            Feature::Avx => (LEAF_1, ECX, 28),
            Feature::Avx2 => (LEAF_7, EBX, 5),
            Feature::Avx512 => (LEAF_7, EBX, 16),
            Feature::Pclmulqdq => (LEAF_1, ECX, 1),
            Feature::Vpclmulqdq => (LEAF_7, ECX, 10),
            Feature::Clflushopt => (LEAF_7, EBX, 23),
            Feature::Clwb => (LEAF_7, EBX, 24),
        }
    }

    /// Whether the processor has it, and the system lets programs use it.
    #[must_use]
    pub fn is_here(self) -> bool {
        let (leaf, register, bit) = self.place();
        // SAFETY: the C library answers for every leaf, with a structure that lives for good and does not change.
        let leaf = unsafe { &*__x86_get_cpuid_feature_leaf(leaf) };
        let words = match self {
            // These features have no registers that the system must save, so the processor's own word is enough.
            Feature::Clflushopt | Feature::Clwb => &leaf.registers,
            _ => &leaf.active,
        };
        words[register] & 1 << bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Feature;

    #[test]
    fn it_says_what_asking_the_processor_says() {
        assert_eq!(Feature::Sse42.is_here(), std::arch::is_x86_feature_detected!("sse4.2"));
        assert_eq!(Feature::Avx.is_here(), std::arch::is_x86_feature_detected!("avx"));
        assert_eq!(Feature::Avx2.is_here(), std::arch::is_x86_feature_detected!("avx2"));
        assert_eq!(Feature::Pclmulqdq.is_here(), std::arch::is_x86_feature_detected!("pclmulqdq"));
        assert_eq!(Feature::Avx512.is_here(), std::arch::is_x86_feature_detected!("avx512f"));
        assert_eq!(Feature::Vpclmulqdq.is_here(), std::arch::is_x86_feature_detected!("vpclmulqdq"));
        let extended = core::arch::x86_64::__cpuid_count(7, 0).ebx;
        assert_eq!(Feature::Clflushopt.is_here(), extended & 1 << 23 != 0);
        assert_eq!(Feature::Clwb.is_here(), extended & 1 << 24 != 0);
    }
}
