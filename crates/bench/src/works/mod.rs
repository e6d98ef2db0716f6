//! Policy: the works, their sizes, and the goal each one has to meet.
//!
//! | file | idea |
//! |---|---|
//! | `all.rs` | all works, by subject and by name |
//! | `calls.rs` | single calls |
//! | `daemon.rs` | the daemon after a crash and at rest |
//! | `goal.rs` | what a row of the table has to reach |
//! | `limits.rs` | comparisons with the hardware alone |
//! | `migration.rs` | stores whose fast tier holds a small part of the data |
//! | `program.rs` | the programs of works |
//! | `programs.rs` | programs that are started, and jobs of many programs |
//! | `sharing.rs` | several processes that share files |
//! | `tiers.rs` | stores of several tiers, optimistic mode, large writes |
//! | `work.rs` | a work, and the lines it gives |
//! | `writes.rs` | small synchronous writes, databases, large writes |
//!
//! Everything that could be argued about is here, in a table for each subject. The room opens no file.
//!
//! Goals on the rate of small synchronous writes are judged on *bursts* that fit the log, each after it had time to drain; the
//! sustained rate, where the digest is the limit, has rows of its own, and so has the longest stall.

pub mod all;
pub mod calls;
pub mod daemon;
pub mod goal;
pub mod limits;
pub mod migration;
pub mod program;
pub mod programs;
pub mod sharing;
pub mod tiers;
pub mod work;
pub mod writes;
