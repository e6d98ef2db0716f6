//! Programs of campaigns: by which doors they come to a store, and where that lies.
//!
//! | file | idea |
//! |---|---|
//! | `doors.rs` | by which doors programs come to a store |
//! | `processes.rs` | processes that are not our children |
//! | `stores.rs` | where campaigns make their stores |
//!
//! The room does not know what programs do.

pub mod doors;
pub(crate) mod processes;
pub(crate) mod stores;
