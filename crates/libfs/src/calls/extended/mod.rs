//! Calls on extended attributes.
//!
//! | file | idea |
//! |---|---|
//! | `attributes` | get, list, set, remove |
//! | `permission` | who may |
//! | `fetch` | fetching an inode's attributes; whether one more fits |
//! | `lists` | the two attributes that are access control lists |

pub(crate) mod attributes;
pub(crate) mod fetch;
pub(crate) mod lists;
pub(crate) mod permission;
