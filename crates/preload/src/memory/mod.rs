//! Memory: this library's own, and the application's.
//!
//! | file | what it has |
//! |---|---|
//! | `allocator` | this library's allocator |
//! | `libc_allocation` | what stands in for libc's malloc in this library |
//! | `user_memory` | reads and writes of the application's memory |
//!
//! This room knows no file.

pub(crate) mod allocator;
pub(crate) mod libc_allocation;
pub(crate) mod user_memory;

pub use allocator::{end_thread, keep_given_memory, use_heap};
