//! The subcommands.
//!
//! | file | idea |
//! |---|---|
//! | `command.rs` | which subcommands there are |
//! | `programs/` | programs on a store: `run`, `doctor`, `mount`, `unmount` |
//! | `daemons/` | the daemon of a store: `serve`, `stop`, `status`, `trace` |
//! | `stores/` | whole stores: `mkfs`, `destroy`, `dsync`, `fsck`, `scrub`, `calibrate` |
//! | `files/` | files of a store: `explain`, `quota` |
//!
//! A subcommand prints and exits. Other crates do the work.

mod command;
mod daemons;
mod files;
mod programs;
mod stores;

pub use command::Command;
