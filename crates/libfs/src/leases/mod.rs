//! Leases: getting them, losing them to a fence, and giving them back.
//!
//! | file | idea |
//! |---|---|
//! | `acquire` | an inode's state under a lease: from the cache, a parcel, or SharedFS |
//! | `ahead` | policy: when to ask for more leases than the one that is needed |
//! | `parcel_store` | leases granted ahead, not used yet |
//! | `lock_order` | several inodes locked at once, in the order of their numbers |
//! | `resync`, `fences` | going on after a fence: what to forget; how past fences ended |
//! | `give_back` | forgetting closed inodes |
//!
//! The room must not know paths or calls.

pub(crate) mod acquire;
pub(crate) mod ahead;
pub(crate) mod fences;
pub(crate) mod give_back;
pub(crate) mod lock_order;
pub(crate) mod parcel_store;
pub(crate) mod resync;
