//! Subcommands about files of a store, and about their owners.
//!
//! | file | idea |
//! |---|---|
//! | `explain.rs` | shows where a file lies and which sessions hold it |
//! | `migrate.rs` | moves the content of files to a tier |
//! | `quota.rs` | shows what users own, and limits it |
//!
//! The daemon answers; the room only prints.

pub mod explain;
pub mod migrate;
pub mod quota;
