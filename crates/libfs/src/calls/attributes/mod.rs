//! Calls on attributes.
//!
//! | file | idea |
//! |---|---|
//! | `values` | what the calls take and answer |
//! | `stat` | `fstat`, `stat`; versions |
//! | `path_attributes` | the attributes of what a path names, from a parcel if it lies there |
//! | `access` | `access` |
//! | `set` | `chmod`, `chown`, `utimensat` |
//! | `access_times` | times of last access |
//! | `statfs` | `statfs` |

pub(crate) mod access;
pub(crate) mod access_times;
pub(crate) mod path_attributes;
pub(crate) mod set;
pub(crate) mod stat;
pub(crate) mod statfs;
pub(crate) mod values;
