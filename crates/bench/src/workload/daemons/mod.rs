//! Programs for the daemon: after a crash, and at rest.
//!
//! | file | idea |
//! |---|---|
//! | `at_rest.rs` | a store full of files, and programs that do nothing |
//! | `fill.rs` | a writer that fills a log until it is killed |
//!
//! The daemon is measured from outside; see `processes`.

pub mod at_rest;
pub mod fill;
