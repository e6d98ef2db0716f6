//! Pieces that several programs are made of.
//!
//! | file | idea |
//! |---|---|
//! | `members.rs` | several processes at once, and their outcomes as one |
//! | `pauses.rs` | pauses between bursts, and how many work at once |
//! | `shell.rs` | lines of shell |
//! | `sources.rs` | the sources of a C project |
//! | `stamp.rs` | blocks that say what they are |
//!
//! The room measures nothing by itself.

pub mod members;
pub mod pauses;
pub mod shell;
pub mod sources;
pub mod stamp;
