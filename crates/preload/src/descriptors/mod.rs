//! Descriptors of the store, as the program sees them.
//!
//! ```text
//!   number ── classes (may it be ours?) ── table ──► description ──► LibFS file (reopening), cell (sharing)
//! ```
//!
//! | file | what it has |
//! |---|---|
//! | `kernel` | the kernel's descriptors, and where this library's own lie |
//! | `classes` | what each number is |
//! | `table` | which description is behind each number |
//! | `description` | an open file description |
//! | `reopening` | its LibFS file, opened again after a fork or exec |
//! | `sharing` | what several processes share of it |
//! | `cells` | the memory that they share |
//! | `references` | placeholders that other processes can receive |
//! | `record_locks` | inodes with record locks |
//! | `first_record_lock` | before the first record lock on an inode |
//! | `passing` | open files in messages |
//! | `passed_cell` | the cell of a file that was sent |
//! | `current_directory` | where the program is |
//! | `working_directory` | the working directory |
//!
//! This room knows no system call by its number.

pub(crate) mod cells;
pub(crate) mod classes;
pub(crate) mod current_directory;
pub(crate) mod description;
pub(crate) mod first_record_lock;
pub(crate) mod kernel;
pub(crate) mod passed_cell;
pub(crate) mod passing;
pub(crate) mod record_locks;
pub(crate) mod references;
pub(crate) mod reopening;
pub(crate) mod sharing;
pub(crate) mod table;
pub(crate) mod working_directory;

pub use classes::{hidden, hide, is_hidden, is_kept, is_of_interest, is_open, keep_hidden};
pub use description::{Pin, describe};
pub use table::{after_fork, all, any, change, drop_delta, grouped, install, pin, remove};
