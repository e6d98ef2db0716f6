//! A store as the command meets it: its folders, its owner, its locks and its mounts.
//!
//! | file | idea |
//! |---|---|
//! | `device.rs` | the device number of a store |
//! | `guard.rs` | watches over the folder of a store that is served |
//! | `holder.rs` | the process that has a store locked |
//! | `locking.rs` | locks a store, and waits for a daemon that ends |
//! | `mounts.rs` | the mounts of stores, and paths below them |
//! | `owner.rs` | makes root the user of the store |
//! | `places.rs` | paths, and the kind of file system at a path |
//! | `store.rs` | where the parts of a store lie |
//!
//! The room does not connect to a daemon.

pub mod device;
pub mod guard;
pub mod holder;
pub mod locking;
pub mod mounts;
pub mod owner;
pub mod places;
pub mod store;
