//! CRC32C, with the fastest instructions that the processor has.
//!
//! | file | idea |
//! |---|---|
//! | `checksum.rs` | the checksum itself, and which way computes it |
//! | `folding.rs` | how folding shortens long runs of bytes |
//! | `processor.rs` | the features of this processor |
//!
//! The room does not know which bytes it sums.

pub(crate) mod checksum;
pub mod folding;
#[cfg(target_arch = "x86_64")]
pub mod processor;
