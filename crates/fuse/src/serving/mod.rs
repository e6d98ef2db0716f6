//! Threads that take requests, and the rules they go by.
//!
//! | file | idea |
//! |---|---|
//! | `agreed.rs` | what both sides agree on when a mount begins |
//! | `keeping.rs` | how long the kernel may keep what it was told |
//! | `root.rs` | the root as the kernel knows it when a mount begins |
//! | `server.rs` | the threads |
//! | `serves.rs` | the interface of whatever answers requests |
//!
//! The room does not know LibFS's calls; see `door`.

pub(crate) mod agreed;
pub(crate) mod keeping;
pub(crate) mod root;
pub(crate) mod server;
pub(crate) mod serves;
