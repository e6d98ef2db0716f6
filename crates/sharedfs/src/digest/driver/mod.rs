//! The digest, driven: which log is next, how far it goes, and what sessions learn of it.
//!
//! | file | idea |
//! |---|---|
//! | `digesting` | batches of one log, up to a goal |
//! | `due` | batches of the logs that are due, and what a full or damaged store leaves undone |
//! | `publishing` | what a batch tells its session |
//! | `progress` | what a step did |
//! | `backlogs` | what logs hold that is not digested |
//! | `polled_logs` | sessions whose logs are looked at without a kick |
//! | `others` | what the digest asks about other sessions |
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
