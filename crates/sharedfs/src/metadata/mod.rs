//! The metadata store: every inode, name and extent of the shared area, and what recovery must know, in one
//! transactional B+tree (redb; `docs/decisions/0001-metadata-store.md` says why and how it is laid out).
//!
//! Mechanism only. A [`Transaction`] gathers a digest batch in memory, sees its own changes, and commits them all
//! or nothing. Small ones go into a journal in front of the tree. Larger ones go into the tree, with the journal's
//! changes, in the order of the keys. A [`Snapshot`] is the committed state of the moment it was taken. Which
//! operations are allowed and which blocks are free is decided elsewhere.
//!
//! | room | idea |
//! |---|---|
//! | `store`, `shared`, `read_only` | the store: made, opened, closed; what its transactions share; why it takes no writes |
//! | `writing` | a transaction gathers changes |
//! | `journal` | small transactions, in front of the tree |
//! | `tree` | the committed state: snapshots of the tree with the journal's changes over it |
//! | `codec` | keys and values |
//! | `files` | the file under the tree, and its second copy |
//! | `repair` | the rest of a damaged store |
//! | `error` | its errors |
//!
//! No file here knows logs, sessions' pages, or which blocks are free.

mod codec;
mod error;
mod files;
mod journal;
mod read_only;
mod repair;
mod shared;
mod store;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
mod writing;

pub use codec::{Counters, Dirent, ExtentList, ExtentWrite, RawInode, SessionRecord, StoredInode};
pub use error::MetadataError;
pub use files::{Files, Owner};
#[cfg(test)]
pub(crate) use journal::tests::plant_extent;
pub use journal::{JournalFlaw, JournalLoss};
pub use read_only::ReadOnly;
pub use repair::SoundPart;
pub use store::{CACHE_BYTES, MetadataStore};
pub use tree::{Entry, KeptWindow, Snapshot};
pub(crate) use writing::payers;
pub use writing::{Changed, Transaction, Watch};
