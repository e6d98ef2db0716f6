//! Writes to a disk by calls, past mappings.
//!
//! | file | idea |
//! |---|---|
//! | `aio.rs` | writes that the kernel has taken, and those that are done |
//! | `called.rs` | mapped files that are written by calls |
//! | `gathered.rs` | writes straight from memory of the application |
//! | `direct.rs` | writes past the page cache |
//! | `discard.rs` | parts of a disk that nothing needs any more |
//! | `vigil.rs` | waiting for a disk on a processor that stays awake |
//!
//! The room does not know logs and arenas.

pub(crate) mod aio;
pub(crate) mod called;
pub(crate) mod direct;
pub(crate) mod discard;
pub(crate) mod gathered;
pub(crate) mod vigil;
