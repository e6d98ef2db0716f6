//! The store: its state while it is open, how it is made, opened and closed, and how it proves what it is.
//!
//! | file | idea |
//! |---|---|
//! | `core` | the state of an open store: [`SharedFs`] and its locks |
//! | `creation`, `open`, `close` | a store's fast tier is made, opened with recovery, left to the next daemon |
//! | `used_blocks` | the blocks in use, read from the metadata store |
//! | `superblocks` | the superblock, twice |
//! | `opening` | which opening of the store this is |
//! | `boot` | whether the machine was started anew since the store was open |
//! | `emulation` | a medium that is played on the store's own |
//! | `configuration` | `cuesta.toml` |
//! | `folders` | names in a folder become durable |
//! | `reading` | reads without a session, for the simulator and the checker |
//! | `trust` | a store's folders are checked before anything in them is believed |
//! | `observe` | events and totals |
//!
//! No file here answers a request or applies an entry.

mod boot;
mod close;
pub mod configuration;
mod core;
mod creation;
pub(crate) mod emulation;
mod folders;
pub(crate) mod observe;
mod open;
mod opening;
mod reading;
mod superblocks;
pub mod trust;
mod used_blocks;

pub(crate) use self::core::Core;
pub use self::core::{SessionHandle, SharedFs};
pub(crate) use configuration::ConfigurationError;
pub use configuration::{Options, Ship};
pub(crate) use emulation::channels;
pub(crate) use folders::sync_folder;
pub(crate) use superblocks::Superblocks;
pub use superblocks::read_superblock;
