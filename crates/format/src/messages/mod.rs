//! Messages: between LibFS and SharedFS, to a mount, and to the kernel.
//!
//! | file | idea |
//! |---|---|
//! | `event.rs` | observable steps of a store, for traces |
//! | `kernel_notice.rs` | notices to the kernel's FUSE driver |
//! | `mount_calls.rs` | calls of the preload door to a mount |
//! | `parcel.rs` | leases granted ahead, with their inode records |
//! | `wire.rs` | requests and responses over the store's socket |
//!
//! The room opens no socket. Rules for answers are SharedFS's.

pub mod event;
pub mod kernel_notice;
pub mod mount_calls;
pub mod parcel;
pub mod wire;
