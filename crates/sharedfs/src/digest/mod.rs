//! Digest: folding a log prefix into the shared area, atomically (DESIGN §5).
//!
//! | step | file | what |
//! |---|---|---|
//! | validate | here, `namespace::apply` | copied entries only; checksum, generation, content, authority |
//! | coalesce | `namespace::view`, `namespace::pieces` | what is left at the end of the batch is all that counts |
//! | place, copy | `place`, `overwrite`, `mapped` | new blocks for content, and over committed ones what is sure to be digested again |
//! | commit | `commit` | one transaction with "digested up to" |
//!
//! `policy` decides whose log is digested next; nothing here waits for a session.
//!
//! The log is copied into memory of our own, in batches, before anything of it is looked at, and what is placed
//! comes from that copy: no session can change what was checked.

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
pub(crate) use bitmaps::put_bitmaps;
pub(crate) use directory_changes::DirectoryChanges;
pub(crate) use log_view::{LogView, Until};
pub(crate) use policy::Backlog;
pub(crate) use storage::{Others, Storage};
