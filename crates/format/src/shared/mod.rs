//! Memory that processes share while a store is open.
//!
//! | file | idea |
//! |---|---|
//! | `account.rs` | how many calls a run made, by their outcome |
//! | `control.rs` | the client page and the notice page of a session |
//! | `kept_names.rs` | the names that the kernel keeps for a mount |
//! | `seen_reads.rs` | what a session read lately, as far as it tells |
//!
//! The room knows layouts only. The atomics that its readers and writers need are in the crate `media`.

pub mod account;
pub mod control;
pub mod kept_names;
pub mod seen_reads;
