//! From a path to an inode, and whether the caller may.
//!
//! | file | idea |
//! |---|---|
//! | `path` | how a call names a file; the result of a walk |
//! | `walk`, `lookup` | the walk, and one step of it |
//! | `directory_path` | from a directory to its path |
//! | `credentials`, `capabilities` | whom a call acts for |
//! | `permissions`, `access_list` | mode bits and access control lists |
//! | `confinement`, `confined` | Landlock rulesets: the rules, and checking a call against them |
//!
//! The room changes nothing in the store and appends no entry.

pub(crate) mod access_list;
pub(crate) mod capabilities;
pub(crate) mod confined;
pub(crate) mod confinement;
pub(crate) mod credentials;
pub(crate) mod directory_path;
pub(crate) mod lookup;
pub(crate) mod path;
pub(crate) mod permissions;
pub(crate) mod walk;
