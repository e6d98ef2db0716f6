//! The metadata store: every inode, name and extent of the shared area, and what recovery must know, in one
//! transactional B+tree (redb; `docs/decisions/0001-metadata-store.md` says why and how it is laid out).
//!
//! Mechanism only. A [`Transaction`] gathers a digest batch in memory, sees its own changes, and commits them
//! all or nothing: small ones into a journal in front of the tree, larger ones and what the journal holds into the tree, in
//! the order of the keys. A [`Snapshot`] is what was committed when it was taken. Which
//! operations are allowed and which blocks are free is decided elsewhere.

mod apply;
mod backend;
mod calls;
mod checked_pages;
mod copies;
mod error;
mod extents;
mod gaps;
mod guard;
mod header;
mod journal;
mod keys;
mod layered;
mod name_changes;
mod opened;
pub(crate) mod paths;
mod records;
mod redo;
mod salvage;
mod snapshot;
mod sound_part;
mod spare;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod usage;
mod watch;

pub use copies::Files;
pub use error::MetadataError;
pub use extents::ExtentWrite;
pub use header::Owner;
pub use journal::JournalFlaw;
#[cfg(test)]
pub(crate) use journal::tests::plant_extent;
pub use records::{Counters, Dirent, ExtentList, RawInode, SessionRecord, StoredInode};
pub use snapshot::{Entry, Snapshot};
pub use sound_part::{JournalLoss, SoundPart};
pub use store::{CACHE_BYTES, MetadataStore, ReadOnly};
pub use transaction::Transaction;
pub(crate) use usage::payers;
pub use watch::{Changed, Watch};
