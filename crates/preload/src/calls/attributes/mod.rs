//! Attributes of files.
//!
//! | file | what it has |
//! |---|---|
//! | `stat` | `stat`, and calls that change what it shows |
//! | `extended` | extended attributes |
//! | `flags` | a file's flags, and which of its pages are cached |
//! | `device` | the device number of the store |
//!
//! This room does not know how a path is resolved: `paths` does.

pub(crate) mod device;
pub(crate) mod extended;
pub(crate) mod flags;
pub(crate) mod stat;
