//! The workloads that are crashed.
//!
//! | file | idea |
//! |---|---|
//! | `campaign.rs` | all cases of a campaign |
//! | `hand_overs.rs` | leases that change hands |
//! | `mapped.rs` | files in mapped mode |
//! | `staged.rs` | writes whose blocks are written where they stay |
//! | `tiers.rs` | content of a lower tier |
//! | `workloads.rs` | each mutating call, pairs of them, and details |
//!
//! The room does not know crashes.

pub mod campaign;
pub mod hand_overs;
pub mod mapped;
pub mod staged;
pub mod tiers;
pub mod workloads;
