//! Leases: which session may cache an inode, and which may change it (docs/design/sharing.md).
//!
//! A state machine without sockets, clocks or locks: the daemon feeds it requests and reports of what it has
//! done, with the time, and it answers what must happen first.
//!
//! | state of an inode for a session | how it gets there | what another session's request finds |
//! |---|---|---|
//! | none | at first; after revocation | granted |
//! | reading | granted Read | Read: granted; Write: fence the reader |
//! | writing | granted Write; born of the session's inode numbers | fence the writer |
//! | lingering until P | given back while the log was not digested beyond P | digest the session up to P |
//!
//! A session's new inodes are not entered one by one. Each inode whose number was granted to the session counts as
//! written by it until it gives the inode back or loses it, which is a bit then ([`lost_numbers`]). Nor are leases entered
//! that are granted ahead: a bit says so ([`blocks`]), until something happens to them. So files that one session
//! made and another looked at take next to nothing, however many.
//!
//! Policy. A session that asks to read an inode no other session holds may write it, too, so that it need not ask
//! again. That is right for what is private. It is wrong for a directory that several programs only pass through:
//! each would fence the other for ever. So an inode that a session was fenced for is *contended* for a while
//! ([`contention`]). There every session gets what it asks for and no more, and keeps it for a moment
//! (`requests::granting`), so that busy sessions trade batches and not operations.
//!
//! A program that delivers mail changes two such directories in each operation. One fence moves both
//! ([`Leases::goes_along`], [`Leases::grant_along`]): otherwise each session would hold one of them and wait for the other. The session
//! that has waited longest gets them next. Files are not grouped, and their turns are shorter: a database's processes change a page of one
//! file here and a page of another there. A file that changes hands all the time is *shipped* for a while: SharedFS keeps its lease, and
//! performs the operations that sessions send ([`shipping`]).
//!
//! | file | idea |
//! |---|---|
//! | `table` | the state machine: [`Leases`] |
//! | `lease` | the sessions that have one inode |
//! | `outcome` | what a request leads to |
//! | `blocks` | leases granted ahead, a bit each |
//! | `lost_numbers` | inode numbers of a session that it gave back or lost, a bit each |
//! | `contention` | inodes that several sessions change in turns |
//! | `shipping` | files whose operations SharedFS performs |
//! | `logged` | whether a log may say what it says |
//! | `simulated` | every order of steps, tried in a model of the daemon and its sessions |
//!
//! No file here knows time, sockets, storage or locks.

mod blocks;
mod contention;
mod lease;
mod logged;
mod lost_numbers;
mod outcome;
mod shipping;
#[cfg(test)]
mod simulated;
mod table;
#[cfg(test)]
mod tests;

pub use logged::LoggedChange;
pub use outcome::Outcome;
pub use table::Leases;
