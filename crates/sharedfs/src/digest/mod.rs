//! Digest: folding a log prefix into the shared area, atomically (docs/design/data-path.md).
//!
//! | step | file | what |
//! |---|---|---|
//! | validate | `batch`, `namespace::apply` | copied entries only; checksum, generation, content, authority |
//! | coalesce | `namespace::view`, `namespace::pieces` | only the state at the end of the batch counts |
//! | place, copy | `place` | new blocks for content, and over committed ones if it is sure to be digested again |
//! | commit | `commit` | one transaction with "digested up to" |
//!
//! The log is copied into memory of our own, in batches, before anything of it is looked at, and all content is placed
//! from that copy: no session can change bytes that were checked.
//!
//! | file | idea |
//! |---|---|
//! | `policy` | which log is digested next; nothing here waits for a session |
//! | `log_view`, `storage`, `before` | a digest's view of the log, of the store, and of the state before the batch |
//! | `batch` | one batch: read, checked, applied, placed, committed |
//! | `place` | where content goes |
//! | `commit`, `bitmaps` | the transaction, and the bitmaps in it |
//! | `orphans` | inodes without a name, and the sessions they are kept for |
//! | `renewed` | files that had lost content and are whole again |
//! | `directory_changes` | changes of directories that sessions change in turns |
//! | `dependencies` | parts of other logs that a log must not survive without |
//! | `driver` | drives all this for an open store |
//!
//! But for `driver` and `dependencies`, no file here knows the open store. None knows requests.

mod batch;
mod before;
mod bitmaps;
mod commit;
pub(crate) mod dependencies;
pub(crate) mod directory_changes;
pub(crate) mod driver;
mod log_view;
mod orphans;
pub(crate) mod place;
pub mod policy;
mod renewed;
mod storage;

pub(crate) use batch::{Batch, Digester};
pub(crate) use bitmaps::{put_bitmaps, put_stamps};
pub(crate) use directory_changes::DirectoryChanges;
pub(crate) use log_view::{LogView, Until};
pub(crate) use policy::Backlog;
pub(crate) use storage::{Others, Storage};
