//! A transaction: changes of one digest batch, gathered over a snapshot and committed together.
//!
//! | file | idea |
//! |---|---|
//! | `transaction` | the changes |
//! | `name_changes` | those of names, of which a batch has the most |
//! | `calls` | those of callers' calls |
//! | `arenas` | those of arenas |
//! | `windows` | those of blocks that sessions may write and name |
//! | `usage` | the amounts charged to each user, group and directory |
//! | `watch` | caches learn what a commit changed |
//! | `spare` | memory that one transaction leaves to the next |
//!
//! No file here writes: [`shared`](super::shared) commits the gathered changes to the journal or the tree.

mod arenas;
mod calls;
mod name_changes;
mod spare;
mod transaction;
mod usage;
mod watch;
mod windows;

pub(super) use name_changes::NewNames;
pub(super) use spare::Spare;
pub use transaction::Transaction;
pub(crate) use usage::payers;
pub use watch::{Changed, Watch};
