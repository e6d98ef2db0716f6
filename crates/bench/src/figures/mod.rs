//! Figures: measuring them, and statistics over them.
//!
//! | file | idea |
//! |---|---|
//! | `measure.rs` | clocks and figures |
//! | `predictions.rs` | how often predictors were right |
//! | `stats.rs` | statistics over the rounds of a run |
//! | `units.rs` | units of memory |
//!
//! The room does not know where a figure comes from.

pub mod measure;
pub mod predictions;
pub mod stats;
pub mod units;
