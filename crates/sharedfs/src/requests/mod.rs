//! Requests: everything LibFS and the command may ask (`format::wire`), answered without sockets.
//!
//! | file | what it answers |
//! |---|---|
//! | `dispatch` | nothing itself: it finds the answer of each request |
//! | `trouble` | why a request is not answered as asked |
//! | `granting` | leases, and what they bring along |
//! | `reading` | names, extents, extended attributes and arenas of what a session holds |
//! | `credit` | promises of blocks |
//! | `windows` | blocks that a session writes itself |
//! | `log_growth`, `commit_file` | segments of a log, its commit file and its mark |
//! | `resync` | what a fence left of a session's log |
//! | `passing` | open files that a program sends to another |
//! | `written` | whether a process has a file open for writing |
//! | `accesses` | times of last access |
//! | `totals`, `explanation` | `statfs`, `cuesta status`, `cuesta explain` |
//!
//! No file here knows sockets or threads: `server` does.

mod accesses;
mod commit_file;
mod credit;
mod dispatch;
mod explanation;
pub(crate) mod granting;
mod log_growth;
mod passing;
mod reading;
mod resync;
mod totals;
mod trouble;
mod windows;
mod written;

pub(crate) use explanation::find;
pub(crate) use granting::{Ahead, Packed};
pub(crate) use reading::directory_entry;
pub(crate) use trouble::{Trouble, invalid};
