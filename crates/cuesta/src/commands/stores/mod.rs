//! Subcommands about a whole store.
//!
//! | file | idea |
//! |---|---|
//! | `calibrate.rs` | measures a medium, and a slower one played on it |
//! | `destroy.rs` | removes a store |
//! | `dsync.rs` | waits until the disk has everything |
//! | `fsck.rs` | checks a store, and repairs it |
//! | `mkfs.rs` | makes a store |
//! | `scrub.rs` | compares all content with its checksums |
//! | `tier.rs` | the tiers of a store |
//!
//! The room does not know what files mean to programs.

pub mod calibrate;
pub mod destroy;
pub mod dsync;
pub mod fsck;
pub mod mkfs;
pub mod scrub;
pub mod tier;
