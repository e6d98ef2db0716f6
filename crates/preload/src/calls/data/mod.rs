//! The content of files.
//!
//! | file | what it has |
//! |---|---|
//! | `contents` | reading, writing, seeking and syncing an open file |
//! | `truncation` | cutting a file that a path names |
//! | `transfer` | copying between descriptors |
//! | `asynchronous` | `io_submit` |
//! | `mapping` | `mmap` |
//!
//! This room does not know the kernel's part of a descriptor: `descriptors` does.

pub(crate) mod asynchronous;
pub(crate) mod contents;
pub(crate) mod mapping;
pub(crate) mod transfer;
pub(crate) mod truncation;
