//! Files that the kernel serves for the store, and descriptors that are no files.
//!
//! | file | what it has |
//! |---|---|
//! | `stand_ins` | named pipes and sockets without a mount |
//! | `by_mount` | pipes, devices and programs that the kernel opens by the mount |
//! | `entered` | what the kernel was given of the store for an exec |
//! | `aside` | a descriptor out of the application's way, for one call |
//! | `mounts` | calls on the tree of mounts |
//! | `other_kinds` | calls on descriptors that no file is |
//!
//! This room does not know how a program is executed: `programs` does.

pub(crate) mod aside;
pub(crate) mod by_mount;
pub(crate) mod entered;
pub(crate) mod mounts;
pub(crate) mod other_kinds;
pub(crate) mod stand_ins;
