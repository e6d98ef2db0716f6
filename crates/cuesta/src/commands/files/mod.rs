//! Subcommands about files of a store, and about their owners.
//!
//! | file | idea |
//! |---|---|
//! | `explain.rs` | shows where a file lies and which sessions hold it |
//! | `quota.rs` | shows what users own, and limits it |
//!
//! The daemon answers; the room only prints.

pub mod explain;
pub mod quota;
