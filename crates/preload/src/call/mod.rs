//! One intercepted call, before anything is known of the store.
//!
//! | file | what it has |
//! |---|---|
//! | `request` | the call as the program made it, and its possible answers |
//! | `numbers` | numbers of system calls that libc does not name yet |
//! | `kinds` | kinds of calls, told by their numbers |
//! | `filter` | the tables that the entry code reads before it saves any state |
//! | `errno` | the calling thread's errno |
//!
//! This room knows no descriptors, no session and no thread state.

pub(crate) mod errno;
pub(crate) mod filter;
pub(crate) mod kinds;
pub(crate) mod numbers;
pub(crate) mod request;

pub use request::{Answer, Call, Failure, from_kernel};
