//! Epochs: SharedFS writes all logs in the background, as one consistent cut (medium `block`, docs/decisions/0062).
//!
//! | file | idea |
//! |---|---|
//! | `page` | the words that all sessions see: the present epoch, the newest one on the disk |
//! | `record` | the newest epoch on the disk, at rest |
//! | `account` | both, and the last cut |
//! | `cut` | the disk takes all logs, and an epoch is over |
//! | `pace` | when the next cut is due |
//! | `written_log` | how far cuts took a log |
//! | `modes` | which sessions are optimistic, and whether the store goes by epochs |
//!
//! No file here knows what entries mean, or digests.

mod account;
mod cut;
mod modes;
mod pace;
mod page;
mod record;
mod written_log;

pub(crate) use account::Epochs;
pub(crate) use record::Recorded;
pub(crate) use written_log::WrittenLog;
