//! What differs between CPU architectures: copies that survive faults, write-back, fences.

/// How copies are checksummed on their way: how many bytes are folded at once.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summing {
    /// 64 bytes (AVX-512, VPCLMULQDQ).
    Lines,
    /// 32 bytes (AVX2, VPCLMULQDQ).
    Vectors,
    /// 16 bytes (AVX2, PCLMULQDQ).
    Words,
}

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("Cuesta needs the fault-recovering copies of arch/, written for x86_64 and aarch64 only");
