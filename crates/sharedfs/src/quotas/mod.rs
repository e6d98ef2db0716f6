//! Quotas: how much users, groups and directories may own.
//!
//! | file | idea |
//! |---|---|
//! | `limits` | limits, and the room sessions were given |
//! | `calls` | requests about quotas |
//! | `trees` | a directory gets a quota or loses it: everything below changes whom it counts for |
//!
//! `limits` knows no open store and no sockets. No file here knows what operations do.

mod calls;
mod limits;
mod trees;

pub(crate) use limits::Quotas;
