//! Loads that a store of several tiers is judged by, and what large writes cost.
//!
//! | file | idea |
//! |---|---|
//! | `bulk.rs` | one large file by writes of one size |
//! | `commits.rs` | a log that is synced, beside a table that is written |
//! | `filebench.rs` | threads that go through the steps of a Filebench personality |
//! | `fileset.rs` | the files that they choose from |
//! | `first.rs` | the first appends of a process |
//! | `personalities.rs` | policy: the steps and sizes of each personality, as Filebench publishes them |
//! | `rocksdb.rs` | RocksDB under `db_bench` |
//! | `short.rs` | programs that write one file each and end |
//!
//! The programs know no tiers. Where their bytes went, and how often the predictors were right, the runner asks the daemon.

pub mod bulk;
pub mod commits;
pub mod filebench;
pub mod fileset;
pub mod first;
pub mod personalities;
pub mod rocksdb;
pub mod short;
