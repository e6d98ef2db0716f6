//! A slower medium, played on a faster one.
//!
//! | file | idea |
//! |---|---|
//! | `calibrate.rs` | measures how much of a profile this machine reaches |
//! | `channel.rs` | a channel for bytes, which all processes of a store share |
//! | `emulated.rs` | how long each access waits |
//!
//! The room does not know which files are played; see the crate `sharedfs`.

pub mod calibrate;
mod channel;
mod emulated;

pub use channel::CHANNELS_BYTES;
pub use emulated::Emulated;
