//! Several processes that use the same files and directories at once.
//!
//! | file | idea |
//! |---|---|
//! | `append.rs` | records appended to one file |
//! | `clock.rs` | times operations and the calls in them |
//! | `job.rs` | jobs of several programs in one folder |
//! | `mail.rs` | mail delivered into one Maildir |
//! | `nginx.rs` | nginx with two workers and one access log |
//! | `pages.rs` | pages of one file, written and read |
//! | `pgbench.rs` | PostgreSQL under `pgbench` |
//! | `postgres.rs` | a PostgreSQL server |
//! | `rename.rs` | a rename that SharedFS performs |
//! | `shared.rs` | members that do the same in one place |
//! | `warm_up.rs` | operations before the measured ones |
//!
//! The processes are members of one workload, or programs that a shell starts. Each member measures its own operations, and in
//! them each single call: how long one call waits for the others counts as much as how much gets done.

pub mod append;
pub mod clock;
pub mod job;
pub mod mail;
pub mod nginx;
pub mod pages;
pub mod pgbench;
pub mod postgres;
pub mod rename;
pub mod shared;
pub mod warm_up;
