//! The door's record of the kernel's state.
//!
//! | file | idea |
//! |---|---|
//! | `handles.rs` | open files, by the kernel's handles |
//! | `kinds.rs` | whether a waiting record lock is of a process or of an open file |
//! | `known.rs` | inodes that the kernel knows |
//! | `lock_file.rs` | a lock file, and setting one lock on it |
//! | `locks.rs` | the locks of this mount, and the threads that wait |
//! | `overtaken.rs` | threads whose path another door has changed |
//! | `pages.rs` | pages that the kernel may have cached |
//! | `range.rs` | the bytes of a record lock |
//! | `records.rs` | owners of record locks, and which of them wait for which |
//! | `shared_offsets.rs` | offsets that are shared with the other door |
//! | `shares.rs` | how much each user may have by locks |
//! | `synchrony.rs` | changes that the mount's options (`sync`, `dirsync`) make durable before the call returns |
//!
//! The state does not know the door, nor LibFS's client.

pub(in crate::door) mod handles;
pub(in crate::door) mod kinds;
pub(in crate::door) mod known;
pub(in crate::door) mod lock_file;
pub(in crate::door) mod locks;
pub(in crate::door) mod overtaken;
pub(in crate::door) mod pages;
pub(in crate::door) mod range;
pub(in crate::door) mod records;
pub(in crate::door) mod shared_offsets;
pub(in crate::door) mod shares;
pub(in crate::door) mod synchrony;
