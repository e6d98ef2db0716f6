//! What of the vector registers the entry code must save.

use core::arch::asm;

/// The legacy region of an XSAVE area and its header.
const XSAVE_HEAD_BYTES: usize = 576;
/// Size of the XSAVE area.
pub(super) static mut XSAVE_BYTES: usize = XSAVE_HEAD_BYTES;
/// Components to save; 0 for the legacy region alone.
pub(super) static mut XSAVE_MASK: u32 = UNKNOWN;
/// Not known yet: it waits for a need.
const UNKNOWN: u32 = u32::MAX;

/// One leaf of the processor's features, as the C library keeps it (`struct cpuid_feature`).
#[repr(C)]
struct FeatureLeaf {
    /// eax, ebx, ecx, edx as the processor gave them.
    registers: [u32; 4],
    active: [u32; 4],
}

unsafe extern "C" {
    fn __x86_get_cpuid_feature_leaf(leaf: u32) -> *const FeatureLeaf;
}

/// Learns what vector state exists, from the C library, which asked at its start: each question to the
/// processor is an exit of a virtual machine. Called by the entry code, which has saved all vector state that
/// code of the baseline can touch; calling it again, or twice at once, does no harm.
pub(super) extern "C" fn learn_vector_state() {
    const LEAF_1: u32 = 0;
    const LEAF_XSAVE: u32 = 3;
    const OSXSAVE_ECX: u32 = 1 << 27;
    const XSAVEC_EAX: u32 = 1 << 1;
    /// Bit and bytes of AVX, the AVX-512 masks and both AVX-512 halves: of fixed size, each a multiple of its
    /// alignment, and in the compacted form one behind the other. SSE needs no room of its own.
    const COMPONENTS: [(u32, usize); 4] = [(2, 256), (5, 64), (6, 512), (7, 1024)];
    const SSE: u32 = 1 << 1;
    // SAFETY: the C library's function answers for every leaf, with a structure that lives for good; xgetbv is
    // used only where OSXSAVE is set. The size is stored before the mask, and both are the same whichever thread
    // stores them.
    unsafe {
        let has_xsave = (*__x86_get_cpuid_feature_leaf(LEAF_1)).registers[2] & OSXSAVE_ECX != 0;
        let has_xsavec = (*__x86_get_cpuid_feature_leaf(LEAF_XSAVE)).registers[0] & XSAVEC_EAX != 0;
        if !(has_xsave && has_xsavec) {
            XSAVE_MASK = 0;
            return;
        }
        let (low, _high): (u32, u32);
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _high, options(nomem, nostack));
        let (mut mask, mut end) = (low & SSE, XSAVE_HEAD_BYTES);
        for (bit, bytes) in COMPONENTS {
            if low & (1 << bit) != 0 {
                mask |= 1 << bit;
                end += bytes;
            }
        }
        (&raw mut XSAVE_BYTES).write_volatile(end);
        (&raw mut XSAVE_MASK).write_volatile(mask);
    }
}
