//! The offline checker behind `cuesta fsck`: does everything the store holds fit together?
//!
//! It reads the metadata store from end to end and counts again what the digest keeps: names against inodes, link
//! counts, directory sizes, extents against bitmaps, the zeros behind the ends of files. Most of the problems have
//! one safe repair. The others are damage that is reported and left alone.
//!
//! | file | idea |
//! |---|---|
//! | `checking` | the check, and the repairs in their order |
//! | `problem`, `report` | each [`Problem`] there can be, and what a check found |
//! | `survey` | the whole metadata store, counted again |
//! | `repair` | the one safe change for a problem that has one |
//! | `salvage` | metadata that is damaged in every copy |
//! | `losses` | what a repair drops, until it was told |
//! | `content` | content against its checksums |
//! | `logs` | undigested entries of the logs |
//! | `mapped` | the kernel's files of inodes in mapped mode |
//! | `windows` | blocks that sessions may write and name in their logs |
//!
//! No file here runs beside a daemon. Only `checking` opens the store, to digest its logs.

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
mod windows;

pub use super::log_losses::LogLoss;
pub use super::untold::told;
pub use checking::{check, check_tiers};
pub use content::check_content;
pub use problem::Problem;
pub use report::{CheckReport, Finding, Mode, Verdict};
