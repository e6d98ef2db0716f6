//! One attachment to SharedFS.
//!
//! | file | idea |
//! |---|---|
//! | `session` | the struct: attach, questions, positions of the log |
//! | `link` | one request, one response, over a socket |
//! | `requests` | questions that are waited for, and one at a time that is not |
//! | `control` | the control pages, mapped |
//! | `pages` | counters and flags on the control pages |
//! | `log_growth` | more segments for the log |
//! | `kicks` | waking SharedFS; waiting for a digest |
//! | `credit`, `credit_requests` | blocks and inode numbers granted ahead: the state, and debiting it |
//! | `quotas` | room that SharedFS gave to users, groups and directories with limits |
//! | `arenas`, `map_arena` | mapped arenas: the table, and mapping one more |
//! | `open_slots` | which inodes are open, shown to SharedFS |
//! | `patience` | waiting for a daemon that does not listen yet |
//!
//! Nothing here knows an inode or the client, and nothing takes an inode's lock.

pub(crate) mod arenas;
pub(crate) mod control;
pub(crate) mod credit;
pub(crate) mod credit_requests;
mod kicks;
pub(crate) mod link;
pub(crate) mod log_growth;
pub(crate) mod map_arena;
pub(crate) mod open_slots;
pub(crate) mod pages;
pub(crate) mod patience;
pub(crate) mod quotas;
pub(crate) mod requests;
pub(crate) mod session;
