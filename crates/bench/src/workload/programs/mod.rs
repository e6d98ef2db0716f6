//! Programs that start programs.
//!
//! | file | idea |
//! |---|---|
//! | `job.rs` | jobs of many programs in a tree of files |
//! | `start.rs` | a program that starts others |
//!
//! The goals are in `works`.

pub mod job;
pub mod start;
