//! The daemon of a store: connecting to it, and starting one.
//!
//! | file | idea |
//! |---|---|
//! | `daemon.rs` | a connection to the daemon |
//! | `next_daemon.rs` | the next daemon, for a mount whose daemon is gone |
//! | `own_program.rs` | the program file of this process, to start it once more |
//! | `start.rs` | starts a daemon in the background |
//!
//! The room does not know what the daemon does.

pub mod daemon;
pub mod next_daemon;
pub mod own_program;
pub mod start;
