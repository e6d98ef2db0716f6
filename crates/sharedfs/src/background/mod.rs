//! Work that no request waits for.
//!
//! | file | idea |
//! |---|---|
//! | `preparing` | control pages, segments and arena memory are made before sessions need them |
//! | `orphans` | inodes without a name go once no program has them open |
//! | `giving_back` | disks of lower tiers get back what removed files had |
//! | `idle_memory` | the C library's free memory goes back to the kernel |
//! | `tier_write_back` | below a store in memory, the daemon flushes lower tiers to their disks |
//! | `migration` | content moves from one tier to another |
//! | `rate_limit` | a limit on the work that clients can cause |
//!
//! Nothing here decides when it runs: threads of `server` call it.

mod giving_back;
mod idle_memory;
mod migration;
mod orphans;
mod preparing;
mod rate_limit;
mod tier_write_back;

pub(crate) use idle_memory::IdleMemory;
pub(crate) use migration::{Change, History, Migration, Pins, Uses, Watched};
pub(crate) use orphans::LOOK_EVERY;
pub(crate) use rate_limit::RateLimit;
