//! The asking end, in the process of another user.
//!
//! | file | idea |
//! |---|---|
//! | `beside.rs` | the connection of a process that has one session |
//! | `calls.rs` | how a call gets its answer: by the ring, by the socket, or from the next daemon |
//! | `client.rs` | the calls of a process, as LibFS has them |
//! | `content.rs` | bytes between the application's memory and messages |
//! | `line.rs` | the connection to the daemon of the moment |
//! | `open_file.rs` | an open file, as the process knows it |
//! | `shipped.rs` | operations that sessions send |
//! | `shipper.rs` | the channel for these, as LibFS has it |
//!
//! The room maps no memory of the store but rings.

pub(crate) mod beside;
pub(crate) mod calls;
pub(crate) mod client;
pub(crate) mod content;
pub(crate) mod line;
pub(crate) mod open_file;
pub(crate) mod shipped;
pub(crate) mod shipper;
