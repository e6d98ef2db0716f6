//! Mapped memory: mapping files, and accesses with checked bounds.
//!
//! | file | idea |
//! |---|---|
//! | `growable.rs` | a file whose mapping grows in place |
//! | `huge.rs` | addresses and pages of 2 MiB |
//! | `mapping.rs` | a file, or a part of one, mapped as a whole |
//! | `node.rs` | a memory node, and the wish to get memory from one |
//! | `nodes.rs` | which nodes the machine has, and where memory lies |
//! | `pages.rs` | the kernel's calls for addresses and pages |
//! | `residency.rs` | which pages the kernel has in its page cache |
//! | `shared.rs` | checked accesses to memory that others change as well |
//! | `unsynced.rs` | stores that the disk does not have yet |
//! | `window.rs` | reserved addresses in which files lie side by side |
//!
//! The room does not know what the bytes mean.

pub(crate) mod growable;
pub(crate) mod huge;
pub(crate) mod mapping;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod pages;
mod residency;
pub(crate) mod shared;
pub(crate) mod unsynced;
pub(crate) mod window;
