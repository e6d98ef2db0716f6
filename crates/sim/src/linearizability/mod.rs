//! Linearizability: processes that make calls at once, killed, stopped and left without a daemon, and a check that
//! each call took effect at one instant between its beginning and its end (docs/semantics.md, Guarantees).
//!
//! * [`calls`] says what is done where: a few places, files and clusters of names, that have nothing to do with one
//!   another, so that the history of each is checked alone.
//! * [`ledger`] is where a process writes down when it began a call, when it ended and what it answered: a file
//!   outside the store, which a killed process leaves as it was.
//! * [`worker`] makes the calls, by whatever does them: libc under `cuesta run`, or LibFS in this process.
//! * [`check`] searches the order of a history in which the reference model answers the same.
//! * [`history`] puts together what all wrote down.
//! * [`here`] has sessions in this process do it, and [`campaign`] real processes, with faults.

pub mod answer;
pub mod calls;
pub mod campaign;
pub mod check;
pub mod here;
pub mod history;
pub mod ledger;
pub mod past;
pub mod worker;
