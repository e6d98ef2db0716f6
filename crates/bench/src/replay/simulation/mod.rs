//! The simulated store: a trace runs through a policy.
//!
//! | file | idea |
//! |---|---|
//! | `uses` | a trace, cut into uses of pieces |
//! | `store` | where blocks lie |
//! | `mover` | moves pieces as the policy says, in the trace's time |
//! | `player` | plays the uses, and counts hits and misses |

pub mod mover;
pub mod player;
pub mod store;
pub mod uses;
