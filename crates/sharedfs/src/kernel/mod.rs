//! The kernel's part of the store: caches of mounts, files in mapped mode, pipes and sockets, passed descriptors.
//!
//! | file | idea |
//! |---|---|
//! | `caches` | a mount's device, and how long the kernel may believe what it was told |
//! | `mounts` | a mount's session loses leases: the kernel is told first |
//! | `mapped_files` | files of the kernel's that hold the content of files in mapped mode |
//! | `mapped_mode` | a file goes into the mode, and out of it |
//! | `stand_ins` | pipes and sockets of the kernel's for those of the store |
//! | `passed` | open files that programs sent to each other |
//!
//! Only `mounts` and `mapped_mode` know the open store. No file here knows what logs hold.

mod caches;
mod mapped_files;
mod mapped_mode;
mod mounts;
mod passed;
mod stand_ins;

pub(crate) use caches::{Doubt, KERNEL_TERM, KernelCache};
pub(crate) use mapped_files::MappedFiles;
pub(crate) use passed::PassedFiles;
pub(crate) use stand_ins::StandIns;
