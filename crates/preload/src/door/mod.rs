//! From an intercepted call to its answer.
//!
//! | file | what it has |
//! |---|---|
//! | `entrance` | the boundary that no panic crosses |
//! | `proxy` | calls of a program that filters its system calls |
//! | `proxy_state` | whether the proxy does them |
//! | `fsync_shortcut` | an `fsync` that has nothing to do |
//! | `counting` | counts for `cuesta doctor` |
//!
//! This room does not know what a call means: [`crate::calls`] does.

pub(crate) mod counting;
pub(crate) mod entrance;
pub(crate) mod fsync_shortcut;
pub(crate) mod proxy;
pub(crate) mod proxy_state;

pub use entrance::call;
pub(crate) use entrance::cuesta_dispatch;
