//! Mounts: making one, finding it, changing its options, taking it away.
//!
//! | file | idea |
//! |---|---|
//! | `error.rs` | why there is no mount, or why it stays |
//! | `helper.rs` | taking a mount away by the helper |
//! | `life.rs` | whether a process serves a mount |
//! | `list.rs` | the kernel's list of mounts |
//! | `mount.rs` | making a mount, changing it and taking it away |
//! | `options.rs` | the options of a mount, in words and in flags |
//! | `options_watch.rs` | tells the door when the options have changed |
//!
//! The room does not know what a mount serves.

pub(crate) mod error;
pub(crate) mod helper;
pub(crate) mod life;
pub(crate) mod list;
pub(crate) mod mount;
pub(crate) mod options;
pub(crate) mod options_watch;
