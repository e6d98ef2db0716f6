//! Paths: which of them lead to the store.
//!
//! | file | what it has |
//! |---|---|
//! | `prefix` | paths as bytes: below the prefix or not |
//! | `store_path` | where in the store a path leads |
//! | `crossing` | calls whose path leaves the store on its way |
//! | `links` | links of the kernel's that lead into the store |
//! | `descriptor_paths` | paths that name descriptors of this process |
//! | `descriptor_files` | the files behind such paths |
//! | `own_listing` | listings of this process's descriptors |
//! | `refused` | calls of ours that are not served |
//!
//! This room does not know what a call does at the place that it finds.

pub(crate) mod crossing;
pub(crate) mod descriptor_files;
pub(crate) mod descriptor_paths;
pub(crate) mod links;
pub(crate) mod own_listing;
pub(crate) mod prefix;
pub(crate) mod refused;
pub(crate) mod store_path;
