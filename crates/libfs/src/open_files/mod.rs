//! Open file descriptions.
//!
//! | file | idea |
//! |---|---|
//! | `open_file` | an open file: inode, flags, offset |
//! | `open_handle` | the count of opens of an inode |
//! | `open_flags` | the flags of `open`, for every door |
//! | `offset`, `shared_offset` | the offset; one that processes share |
//! | `listing` | the names that an open directory shows |
//! | `passing` | descriptions sent to other processes |
//!
//! Opening, reading and closing are calls.

pub(crate) mod listing;
pub(crate) mod offset;
pub(crate) mod open_file;
pub(crate) mod open_flags;
pub(crate) mod open_handle;
pub(crate) mod passing;
pub(crate) mod shared_offset;
