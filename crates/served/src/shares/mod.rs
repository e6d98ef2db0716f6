//! How much of the daemon each user has.
//!
//! | file | idea |
//! |---|---|
//! | `accounts.rs` | counts what each user has |
//! | `complaints.rs` | log lines about a user's mistakes, a few of each kind |
//! | `limits.rs` | how much each user may have |
//! | `resource.rs` | the resources that are counted |
//!
//! The room does not know what the resources are used for.

pub(crate) mod accounts;
pub(crate) mod complaints;
pub(crate) mod limits;
pub(crate) mod resource;
