//! Working on what several sessions change, and for processes without a session.
//!
//! | file | idea |
//! |---|---|
//! | `send`, `shipped`, `terms` | sending operations to SharedFS: the calls, the messages, the term |
//! | `perform` | in the daemon: performing them |
//! | `by_number`, `perform_by_number` | calls of a mount, and performing them |
//! | `made_elsewhere` | files that SharedFS makes for a session |
//! | `call_tags`, `callers` | calls executed for others, each exactly once |
//! | `instant`, `name_changes` | such a call takes effect at one instant |
//! | `observed`, `dependencies`, `log_dependencies` | what the log must not survive without, of other logs |

pub(crate) mod by_number;
pub(crate) mod call_tags;
pub(crate) mod callers;
pub(crate) mod dependencies;
pub(crate) mod instant;
pub(crate) mod log_dependencies;
pub(crate) mod made_elsewhere;
pub(crate) mod name_changes;
pub(crate) mod observed;
pub(crate) mod perform;
pub(crate) mod perform_by_number;
pub(crate) mod send;
pub(crate) mod shipped;
pub(crate) mod terms;
