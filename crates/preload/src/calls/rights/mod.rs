//! Rights of the process.
//!
//! | file | what it has |
//! |---|---|
//! | `credentials` | calls that change a thread's credentials |
//! | `landlock` | Landlock |
//!
//! This room does not judge: LibFS does.

pub(crate) mod credentials;
pub(crate) mod landlock;
