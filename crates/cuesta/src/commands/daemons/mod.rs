//! Subcommands about the daemon of a store.
//!
//! | file | idea |
//! |---|---|
//! | `serve.rs` | serves a store in the foreground |
//! | `status.rs` | shows what a store holds and which processes use it |
//! | `stop.rs` | digests everything, then stops the daemon |
//! | `trace.rs` | prints what the daemon does |
//!
//! The daemon itself is in the crate `sharedfs`.

pub mod serve;
pub mod status;
pub mod stop;
pub mod trace;
