//! The client: one session of a process, and how an operation runs until it stands.
//!
//! | file | idea |
//! |---|---|
//! | `client` | the struct that every call starts from; attach and detach |
//! | `operate` | the loop around an operation: gate, attempt, generation, what to do before the next attempt |
//! | `attempt` | one attempt: log space and credit before the locks, one entry under them |
//! | `halt` | why an attempt did not end |
//! | `charges` | charging quotas within an attempt |
//! | `retries`, `give_up` | how often to try again; giving up |
//! | `resume` | going on with the next daemon |
//!
//! The room knows sessions, logs and leases. It must not know a call: calls use it, never the other way round.

pub(crate) mod attempt;
pub(crate) mod charges;
pub(crate) mod client;
pub(crate) mod give_up;
pub(crate) mod halt;
pub(crate) mod operate;
pub(crate) mod resume;
pub(crate) mod retries;
