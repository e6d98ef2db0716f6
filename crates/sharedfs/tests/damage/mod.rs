//! Damage: one copy mends the other, the checker repairs, and people are told of losses.
//!
//! | file | tests |
//! |---|---|
//! | `check` | the offline checker and its repairs |
//! | `copies` | superblock and metadata, each in two copies |
//! | `damaged` | a metadata page that is damaged under a running daemon |
//! | `damaged_logs` | damage of a log is told from a crash |

mod check;
mod copies;
mod damaged;
mod damaged_logs;
