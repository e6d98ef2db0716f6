//! The server of this process's calls: the session it has of its own, or, where it is another user than the store's,
//! SharedFS itself, which is asked call by call ([`cuesta_served`]).
//!
//! Either has the same calls. A file may belong to one of the two: it was opened before the process became another user. The
//! other then opens it again first, by its description.
//!
//! | file | what it has |
//! |---|---|
//! | `client` | the two servers, and what a process is to them |
//! | `open_files` | open files, and the descriptors that stand for them |
//! | `status` | the offset and the flags of an open file |
//! | `renewal` | what the next daemon is shown of them |
//! | `targets` | what a call is about |
//! | `names` | calls on paths |
//! | `contents` | calls on open files |
//! | `shipping` | the connection by which SharedFS does what the session does not |
//!
//! This room knows no system call.

mod client;
mod contents;
mod names;
mod open_files;
pub(crate) mod renewal;
pub(crate) mod shipping;
pub(crate) mod status;
mod targets;

pub use client::Client;
use open_files::stranger;
pub use open_files::{OpenFile, Token, Version};
pub use renewal::Renewal;
pub use targets::{Base, LinkSource, Target};
