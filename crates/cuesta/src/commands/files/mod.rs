//! Subcommands about files of a store, and about their owners.
//!
//! | file | idea |
//! |---|---|
//! | `explain.rs` | shows where a file lies and which sessions hold it |
//! | `migrate.rs` | moves the content of files to a tier |
//! | `named.rs` | a file of a store, as the command line names it |
//! | `pin.rs` | pins the content of files to a tier |
//! | `quota.rs` | shows what users own, and limits it |
//!
//! The daemon answers; the room only prints.

pub mod explain;
pub mod migrate;
mod named;
pub mod pin;
pub mod quota;
