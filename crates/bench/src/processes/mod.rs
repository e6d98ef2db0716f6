//! Processes of a run.
//!
//! | file | idea |
//! |---|---|
//! | `child.rs` | children, with a time limit |
//! | `daemon.rs` | what a daemon takes and does |
//! | `user.rs` | processes of another user |
//!
//! The room does not know what a process measures.

pub mod child;
pub mod daemon;
pub mod user;
