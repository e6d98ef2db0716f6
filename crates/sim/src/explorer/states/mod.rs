//! The states that a crash may leave, and putting them into files.
//!
//! | file | idea |
//! |---|---|
//! | `choice.rs` | which subsets of pending stores are tried |
//! | `image.rs` | the bytes of a store's files at one instant |
//! | `memory.rs` | what recovery found in states that were recovered |
//! | `numbering.rs` | names files by the order in which they appeared |
//! | `pending.rs` | stores that are not durable yet |
//! | `stage.rs` | puts an image into real files |
//!
//! The room does not know what the files mean.

pub(in crate::explorer) mod choice;
pub(in crate::explorer) mod image;
pub(in crate::explorer) mod memory;
pub(in crate::explorer) mod numbering;
pub(in crate::explorer) mod pending;
pub(in crate::explorer) mod stage;
