//! The operation log at rest: entries, their bodies, and marks beside the log.
//!
//! | file | idea |
//! |---|---|
//! | `acknowledged.rs` | how far each log was acknowledged |
//! | `call_tag.rs` | the tag that names the call of a caller |
//! | `dependency.rs` | how one log depends on another |
//! | `entry.rs` | the header of an entry, and its checksums |
//! | `operation.rs` | the operations, and their bodies as bytes |
//! | `tagged.rs` | the tag of an entry, and the record of its call |
//!
//! The room does not know where a log lies; see `store/geometry.rs`. It writes and reads nothing itself.

pub mod acknowledged;
pub mod call_tag;
pub mod dependency;
pub mod entry;
pub mod operation;
mod tagged;
