//! The calls, one file or folder for each family. Each is an `impl Client` block around
//! [`crate::client::operate`].
//!
//! | file | calls |
//! |---|---|
//! | `open`, `close` | `open`, reopening after a fork; `close` and the end of an inode without names |
//! | `data/` | `read`, `write`, `lseek`, `truncate`, `fallocate` |
//! | `attributes/` | `stat`, `access`, `chmod`, `chown`, `utimensat`, `statfs` |
//! | `extended/` | extended attributes and access control lists |
//! | `names/` | `mkdir`, `mknod`, `symlink`, `link`, `unlink`, `rename`, `readlink` |
//! | `listing` | `readdir` |
//! | `programs` | `execve`: a running program is not written |
//!
//! Where a write goes: [`data::write`] prepares an entry, [`crate::client::attempt`] appends it to the log,
//! and [`crate::cache::file_content`] overlays the content with it. SharedFS digests the log;
//! [`crate::log::retire`] then points the content at the arenas.

pub(crate) mod attributes;
pub(crate) mod close;
pub(crate) mod data;
pub(crate) mod extended;
pub(crate) mod listing;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod programs;
