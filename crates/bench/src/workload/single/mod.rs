//! Single calls.
//!
//! | file | idea |
//! |---|---|
//! | `calls.rs` | one kind of call after the other, on few files |
//! | `foreign.rs` | calls on files that are not of a store |
//!
//! The goals are in `works`.

pub mod calls;
pub mod foreign;
