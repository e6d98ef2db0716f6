//! Everything that depends on the processor: the raw system call, where a thread's state lies, how a
//! patched site enters Rust, and how sites are found and rewritten. A port adds a folder beside
//! `x86_64` with the same names; nothing above this module knows about registers.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
