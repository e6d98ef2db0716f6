//! The namespace as one batch of a log changes it: inodes, names and pieces of content in memory, over what
//! the metadata store had when the batch began.
//!
//! | file | idea |
//! |---|---|
//! | `view` | touched inodes and names, loaded once, reused from batch to batch without allocating |
//! | `names` | the touched directory entries |
//! | `extended` | the touched extended attributes |
//! | `calls` | which calls of callers the batch executed |
//! | `ancestry` | which directory lies above which, while they move |
//! | `pieces` | writes and cuts of a file in log order, and what remains of them |
//! | `shift` | a range of a file is taken out, or room is made in it |
//! | `lookup` | questions about the state before the batch |
//! | `applied`, `rejection` | the log that is applied, and why an entry cannot be |
//! | `apply`, `staged`, `attributes` | each operation: every check first, then every change |
//!
//! Coalescing happens here by itself: only the view at the end of the batch is written.
//!
//! Checks and changes are in memory. No file here knows where blocks lie, transactions, or the open store.

mod ancestry;
mod applied;
mod apply;
mod attributes;
mod calls;
mod extended;
mod lookup;
mod names;
mod pieces;
mod rejection;
mod shift;
mod staged;
mod view;

pub use applied::Applied;
pub use lookup::Lookup;
pub use pieces::{Content, Part, Resolver};
pub use rejection::{Rejection, Stop};
pub use view::{Node, View};
