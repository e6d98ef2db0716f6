//! Small synchronous writes, databases, files put in place, large writes.
//!
//! | file | idea |
//! |---|---|
//! | `append.rs` | append and fsync |
//! | `create.rs` | a new file, put in place by rename |
//! | `hand_over.rs` | two processes that write one file |
//! | `pages.rs` | pages of one file, in random order |
//! | `sqlite.rs` | single-row commits |
//! | `stream.rs` | large writes without end |
//! | `threads.rs` | threads that append and fsync |
//! | `together.rs` | the programs above, by several processes at once |
//!
//! The goals are in `works`.

pub mod append;
pub mod create;
pub mod hand_over;
pub mod pages;
pub mod sqlite;
pub mod stream;
pub mod threads;
pub mod together;
