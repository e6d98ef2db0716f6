//! The digest, driven: which log is next, how far it goes, and what sessions learn of it.
//!
//! | file | idea |
//! |---|---|
//! | `digesting` | batches of one log, up to a goal |
//! | `due` | batches of the logs that are due, and those that a full or damaged store leaves undone |
//! | `publishing` | a batch's session learns of it |
//! | `progress` | the result of a step |
//! | `backlogs` | undigested parts of logs |
//! | `polled_logs` | sessions whose logs are looked at without a kick |
//! | `others` | the digest's questions about other sessions, answered |
//!
//! No file here knows what entries mean, or sockets.

mod backlogs;
mod digesting;
mod due;
mod others;
mod polled_logs;
mod progress;
mod publishing;

pub(crate) use digesting::{Digested, METADATA_SLACK_LEAST_BYTES};
pub(crate) use due::STARVED_PAUSE;
pub use progress::Progress;
