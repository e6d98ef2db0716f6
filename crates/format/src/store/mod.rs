//! A store at rest: its superblock, its geometry, and the files beside the logs.
//!
//! | file | idea |
//! |---|---|
//! | `disk_profile.rs` | profiles of slower disks that lower tiers play |
//! | `durability.rs` | when a call that asks for durability returns |
//! | `emulation.rs` | profiles of slower media that a store plays |
//! | `epochs.rs` | the newest epoch of a store that is on the disk |
//! | `geometry.rs` | every size, path and offset of a store |
//! | `identity.rs` | the secret and the device number of a store |
//! | `persistence.rs` | what a platform does with caches at a loss of power |
//! | `session_table.rs` | the table of sessions and their logs |
//! | `stamp.rs` | the opening that a file belongs to |
//! | `superblock.rs` | the superblock, and which versions may open it |
//!
//! The room knows nothing of operations and messages.

pub mod disk_profile;
pub mod durability;
pub mod emulation;
pub mod epochs;
pub mod geometry;
pub mod identity;
pub mod persistence;
pub mod session_table;
pub mod stamp;
pub mod superblock;
