//! The offline checker behind `cuesta fsck`: does everything the store holds fit together?
//!
//! It reads the metadata store from end to end and counts again what the digest keeps: names against inodes, link
//! counts, directory sizes, extents against bitmaps, the zeros behind the ends of files. Most of the problems have
//! one safe repair. The others are damage that is reported and left alone.
//!
//! | folder | idea |
//! |---|---|
//! | `survey` | what the store holds, and each [`Problem`] with it |
//! | `repair` | the one safe change for a problem that has one |
//! | `salvage` | metadata that is damaged in every copy |
//! | `losses` | what a repair drops, until it was told |
//! | `content` | content against its checksums |
//! | `logs` | what the logs hold that is not digested |
//! | `mapped` | the kernel's files of inodes in mapped mode |

mod checking;
mod content;
mod logs;
mod losses;
mod mapped;
mod problem;
mod repair;
mod report;
mod salvage;
mod survey;

pub use super::log_losses::LogLoss;
pub use super::untold::told;
pub use checking::check;
pub use content::check_content;
pub use problem::Problem;
pub use report::{CheckReport, Finding, Mode, Verdict};
