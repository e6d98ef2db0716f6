//! How sessions begin, are fenced, end, and are recovered.
//!
//! | file | idea |
//! |---|---|
//! | `attaching` | a session begins, or comes back to another daemon |
//! | `fences` | one session's leases are taken without asking it |
//! | `halting` | all sessions lose all leases and stand still for a change |
//! | `ending` | a session ends, and gives everything back |
//! | `recovery` | logs that an earlier daemon left are digested |
//! | `recovered` | what recovery did |
//! | `processes` | whether a session's process lives |
//! | `callers` | processes without a session, and the results of their calls |
//!
//! No file here knows sockets, or what entries mean.

mod attaching;
mod callers;
mod ending;
mod fences;
mod halting;
mod processes;
mod recovered;
mod recovery;

pub(crate) use fences::{Claim, Loses};
pub use recovered::Recovered;
