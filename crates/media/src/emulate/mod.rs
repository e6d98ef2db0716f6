//! A slower medium, played on a faster one.
//!
//! | file | idea |
//! |---|---|
//! | `calibrate.rs` | measures how much of a profile this machine reaches |
//! | `channel.rs` | a channel for bytes, which all processes of a store share |
//! | `emulated.rs` | how long each access of memory waits |
//! | `disk_time.rs` | how long each access of a disk takes |
//! | `played_disk.rs` | which accesses reach the disk that is played, and which threads wait for them |
//! | `unwritten.rs` | pages that the kernel has yet to write to a disk |
//! | `calibrate_disk.rs` | measures how much of a disk's profile this machine reaches |
//!
//! The room does not know which files are played; see the crate `sharedfs`.

pub mod calibrate;
pub mod calibrate_disk;
mod channel;
mod disk_time;
mod emulated;
mod played_disk;
mod unwritten;

pub use channel::CHANNELS_BYTES;
pub use emulated::Emulated;
pub use played_disk::{PlayedDisk, settle};
