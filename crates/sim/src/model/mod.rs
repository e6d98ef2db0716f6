//! The reference model: a POSIX file system, said as plainly as we can.
//!
//! Inodes in a map, directories as maps from name to inode number, handles by slot. One caller,
//! root. Errors are the ones Linux gives on ext4, in the order it finds them; `tests/kernel.rs`
//! holds the model against the running kernel. Times are left out except a modification time set
//! by `utimens` and not touched since.
//!
//! | file | idea |
//! |---|---|
//! | `access_lists.rs` | access control lists |
//! | `calls.rs` | calls on files and names |
//! | `extended.rs` | extended attributes |
//! | `lists.rs` | the lists of an inode |
//! | `mappings.rs` | shared mappings |
//! | `resolve.rs` | from paths to inodes |
//! | `state.rs` | the state, and which function performs which operation |
//!
//! The model knows nothing of Cuesta. [`crate::tree`] shows its result.

mod access_lists;
mod calls;
mod extended;
mod lists;
mod mappings;
mod resolve;
mod state;

use state::Handle;
pub(crate) use state::{Body, Directory, Inode};
pub use state::{InodeNumber, Model};
