//! Copies that survive faults, and stores that become durable.
//!
//! | file | idea |
//! |---|---|
//! | `arch.rs` | copies, write-back and fences of each architecture |
//! | `fault_handler.rs` | a handler of faults for programs that have none |
//! | `persist.rs` | copy, write-back and fence of each medium |
//! | `user_copy.rs` | memory of the application, which may fault |
//!
//! The room takes raw addresses. It does not know mappings and files.

pub(crate) mod arch;
pub(crate) mod fault_handler;
pub mod persist;
pub mod user_copy;
