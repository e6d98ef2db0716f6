//! What each request does: one call of LibFS.
//!
//! | file | idea |
//! |---|---|
//! | `call.rs` | a request while it is performed |
//! | `dispatch.rs` | the state of a mount, and which method answers which request |
//! | `refusal.rs` | the error number by which a request is refused |
//! | `requests/` | the requests, by what they are about |
//! | `state/` | what the door knows of the kernel: inodes, open files, locks, cached pages |
//! | `who.rs` | the credentials of a request's sender |
//!
//! There is no file system logic here: LibFS has it. The door does not know how requests reach it; see `serving`.

mod call;
mod dispatch;
mod refusal;
mod requests;
mod state;
mod who;

pub(crate) use dispatch::Door;
pub(crate) use state::synchrony::Synchrony;
