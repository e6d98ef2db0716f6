//! The programs that are measured: plain ones, that make ordinary libc calls and know nothing of Cuesta.
//!
//! | file | idea |
//! |---|---|
//! | `daemons/` | programs for the daemon after a crash and at rest |
//! | `limits/` | programs that are compared with the hardware alone |
//! | `pieces/` | pieces of programs |
//! | `programs/` | programs that start programs |
//! | `run.rs` | runs the program of a work |
//! | `sharing/` | several processes that share files and directories |
//! | `single/` | single calls |
//! | `tiers/` | loads that tiers are judged by, and what large writes cost |
//! | `writes/` | small synchronous writes, databases, large writes |
//!
//! Each program measures itself with its own clock, then reads back what it wrote, outside the measured time. A figure from a
//! program that read back wrong data is not reported.

pub mod daemons;
pub mod limits;
pub mod pieces;
pub mod programs;
pub mod run;
pub mod sharing;
pub mod single;
pub mod tiers;
pub mod writes;
