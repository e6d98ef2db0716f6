//! The journal in front of the tree: small transactions are committed by one record here, and written to the tree together
//! later on (decision 16).
//!
//! | where | what |
//! |---|---|
//! | a number of the file's header | which journal (its generation's low 20 bits), and how many units of it count |
//! | each record | u32 checksum of the rest, u32 bytes of the changes, u64 generation, the changes ([`redo`]), zeros up to a unit |
//!
//! A record counts once the number in the header says so, which is one store: a record behind it that a crash left
//! counts for nothing. The tree says which generation comes behind it. The commit that takes a journal's changes
//! into the tree makes it the next one, and all records that are there count no more. The number says so, too,
//! right behind that commit.
//!
//! | file | idea |
//! |---|---|
//! | `record` | the bytes of a record, and the number in the header |
//! | `redo` | changes, one behind the other |
//! | `policy` | which transactions are committed here |
//! | `writer` | a journal begins, and gets records |
//! | `reader` | reads a journal, and compares its two copies |
//! | `flaw` | what can be wrong with one |
//!
//! No file here knows redb or transactions.

mod flaw;
mod policy;
mod reader;
mod record;
pub(super) mod redo;
#[cfg(test)]
pub(super) mod tests;
mod writer;

pub use flaw::{JournalFlaw, JournalLoss};
pub(super) use policy::{growth_bytes, takes};
pub(super) use reader::{replay, scrub};
pub(super) use record::{JournalEnd, JournalGeneration, is_newer};
pub(super) use redo::{Change, Redo};
pub(super) use writer::{append, begin};
