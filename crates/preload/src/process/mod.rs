//! What this process is to the store.
//!
//! | file | what it has |
//! |---|---|
//! | `configuration` | where the store is |
//! | `session` | the session, if there is one |
//! | `attaching` | attaching when a call first needs it |
//! | `first_calls` | calls that SharedFS does before there is a session |
//! | `child_session` | the session of a vfork child |
//! | `fork_flag` | the flag that a fork leaves in the child |
//! | `forking` | what a fork changes |
//! | `ending` | giving the session up, and the end of the process |
//! | `inheritance` | what the next program gets |
//! | `vacating` | moving this library's descriptors out of the way |
//! | `identity` | how the kernel shows this program |
//! | `kernel_text` | small files of the kernel's |
//! | `report` | a line for the user |
//! | `plain_report` | the same where the store cannot be written to |
//!
//! Nothing is attached before the first call that needs it. A child of fork has a copy of its parent's session, which it must
//! never use. It notices the flag that the patched clone left, abandons the copy and attaches its own when it needs one.
//!
//! This room does not know what a call does.

pub(crate) mod attaching;
pub(crate) mod child_session;
pub(crate) mod configuration;
pub(crate) mod ending;
pub(crate) mod first_calls;
pub(crate) mod fork_flag;
pub(crate) mod forking;
pub(crate) mod identity;
pub(crate) mod inheritance;
pub(crate) mod kernel_text;
pub(crate) mod plain_report;
pub(crate) mod report;
pub(crate) mod session;
pub(crate) mod vacating;

pub use attaching::client;
pub use child_session::ChildSession;
pub use configuration::{Configuration, configuration, configure, note_library, preload_path, variable};
pub use ending::{give_up_client, leave, leave_by_proxy, limits_changed};
pub use fork_flag::{forked, forked_flag, is_caught_up, note_sharing};
pub use forking::{before_child, catch_up, settle_vfork};
pub use identity::{own_name, program, take_identity};
pub use kernel_text::contents;
pub use plain_report::report_inside;
pub use report::report;
pub use session::{attached, placeholder};
pub use vacating::{own_descriptors, vacate};
