//! Runs that are crashed.
//!
//! | file | idea |
//! |---|---|
//! | `calls.rs` | calls of a caller |
//! | `deaths.rs` | a client dies while the daemon lives on |
//! | `histories.rs` | the operations of two sessions, and what a crash may leave of them |
//! | `lanes.rs` | calls that overlap |
//! | `lost_entries.rs` | a client dies, and power is lost during the digest |
//! | `optimistic.rs` | the same sessions in optimistic mode |
//! | `restarts.rs` | the daemon is killed while its clients live on |
//! | `shipping.rs` | sessions whose operations go two ways |
//! | `step.rs` | the steps of a workload |
//! | `store.rs` | one or more clients, one step after the other |
//! | `tiered.rs` | a store with a lower tier |
//! | `unsynced.rs` | stores through mappings that no program has synced |
//!
//! The workloads themselves are in `scenarios`.

pub mod calls;
pub mod deaths;
mod histories;
pub mod lanes;
pub mod lost_entries;
pub mod optimistic;
pub mod restarts;
pub mod shipping;
mod step;
pub mod store;
pub mod tiered;
mod unsynced;
