//! Calls on content.
//!
//! | file | idea |
//! |---|---|
//! | `read` | `read`, `pread` |
//! | `write` | `write`, `pwrite`, appending |
//! | `stage` | large writes: payload into blocks where it stays |
//! | `seek` | `lseek` |
//! | `truncate` | `truncate`, `ftruncate` |
//! | `allocate`, `allocation` | `fallocate`; its modes |
//! | `limits` | sizes that a file may have |
//! | `take_rights` | what a write takes away first: set-id bits and capabilities |
//!
//! The same calls on a file in mapped mode are in [`crate::mapped`].

pub(crate) mod allocate;
pub(crate) mod allocation;
pub(crate) mod limits;
pub(crate) mod read;
pub(crate) mod seek;
pub(crate) mod stage;
pub(crate) mod take_rights;
pub(crate) mod truncate;
pub(crate) mod write;
