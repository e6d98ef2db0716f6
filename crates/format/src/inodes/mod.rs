//! Inodes at rest: records, extents, access lists and quotas.
//!
//! | file | idea |
//! |---|---|
//! | `access_list.rs` | POSIX access control lists |
//! | `inode.rs` | records, extents and times |
//! | `inode_layout.rs` | records and extents as bytes |
//! | `pin.rs` | the attribute that says on which tier content is to lie |
//! | `quota.rs` | amounts and limits of users, groups and directories |
//!
//! The room does not know the tables in which SharedFS keeps inodes.

pub mod access_list;
pub mod inode;
pub mod inode_layout;
pub mod pin;
pub mod quota;
