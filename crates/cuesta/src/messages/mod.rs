//! How the command says things, and names for numbers.
//!
//! | file | idea |
//! |---|---|
//! | `error_names.rs` | names of errors |
//! | `failure.rs` | why a command gives up, and its exit status |
//! | `log.rs` | the log of a process in the background |
//! | `output.rs` | colours, tables and JSON |
//! | `size.rs` | sizes as people write them |
//! | `slips.rs` | what a user meant who gave a store in the wrong place |
//! | `system_calls.rs` | names of system calls |
//! | `user_names.rs` | users and groups by name and by number |
//!
//! The room knows of a store only the name of its log.

pub mod error_names;
pub mod failure;
pub mod log;
pub mod output;
pub mod size;
pub mod slips;
pub mod system_calls;
pub mod user_names;
