//! What may be done to Cuesta by whoever writes the bytes it reads, tried at random under guidance of libFuzzer.
//!
//! | target | bytes of | what must hold beside "no panic, no endless loop, bounded memory" |
//! |---|---|---|
//! | `log_scan` | a log | what is read as an operation is written so that it is read as the same |
//! | `digest` | a script of a hostile session, log and control page | an honest session's file stays as it is; the store is clean |
//! | `messages` | questions on the socket | the same; each answer fits a frame |
//! | `superblock` | superblock and session table | what is accepted can be computed with |
//! | `answers` | what LibFS is answered, with its parcels | |
//! | `served` | what processes of other users ask and are answered | the same of messages |
//! | `asked` | questions of such a process on its socket | each is answered |
//! | `ring` | steps of such a process in its ring | its requests are answered or its connection ends; another process is served |
//! | `kept` | the table of what other users have open | the next daemon serves, and finds what this one kept |
//! | `account` | the account of a run of `cuesta doctor` | |
//!
//! `make fuzz` builds and runs all of them; `fuzz/run` says how. Where each begins is made by `seeds`, from logs and
//! messages as the real code writes them.

mod rings;
pub mod script;
pub mod seeds;
mod targets;
mod users;
pub mod world;

pub use rings::ring;
pub use targets::{account, answers, digest, log_scan, messages, served, superblock};
pub use users::{asked, kept};
