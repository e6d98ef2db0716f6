//! Files of a store, apart from their content.
//!
//! | file | idea |
//! |---|---|
//! | `byte_locks.rs` | locks on bytes of a file, as marks |
//! | `create.rs` | making, sizing and removing files |
//! | `device.rs` | DAX devices, which are mapped as a whole |
//! | `lock_files.rs` | lock files: one for each inode that programs share |
//! | `mapped_files.rs` | content of files in mapped mode |
//! | `owner_rights.rs` | calls with the rights of a folder's owner |
//!
//! The room does not know mappings.

pub mod byte_locks;
pub(crate) mod create;
pub(crate) mod device;
pub mod lock_files;
pub mod mapped_files;
pub mod owner_rights;
