//! The file systems that works are run on.
//!
//! | file | idea |
//! |---|---|
//! | `cuesta.rs` | a store, its daemon, and programs under `cuesta run` |
//! | `kernel.rs` | file systems of the kernel |
//! | `mount.rs` | FUSE mounts |
//! | `name.rs` | the names of peers |
//! | `null.rs` | a FUSE file system that does nothing |
//! | `peer.rs` | the interface of a peer |
//!
//! The room does not know which works are run.

pub mod cuesta;
pub mod kernel;
pub mod mount;
pub mod name;
pub mod null;
pub mod peer;
