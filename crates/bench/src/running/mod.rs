//! The run: each work on all peers in turn, round after round.
//!
//! | file | idea |
//! |---|---|
//! | `fio.rs` | fio, as a cross-check |
//! | `runner.rs` | the rounds |
//! | `stage.rs` | everything that must be there before a run |
//!
//! The room does not judge figures; see `report`.

pub mod fio;
pub mod runner;
pub mod stage;
