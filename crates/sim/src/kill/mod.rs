//! Kill tests: real programs and the real daemon, killed in the middle, checked from outside.
//!
//! A campaign is a chain of rounds on one store. In each, a writer runs under `cuesta run`, or comes by a
//! mount, and issues seeded operations by plain libc calls; it says so on a pipe before and after each one,
//! and checks each answer against the model as it goes. The campaign counts the answers and after
//! a seeded number of them kills the program, the daemon, the mount's process, or several of them. Then
//! there is a daemon again, and a mount if there was one, and a verifier at each door finds the store to be the
//! model after `k` of the round's operations, acknowledged ≤ k ≤ issued. The next round goes on from there.
//!
//! Two programs at once ([`pair`]) work in a directory each, checked like that, and in one they share ([`shared`]).
//!
//! The record of all rounds ([`history`]) is the oracle's whole memory; it lies outside the store.

pub mod campaign;
pub mod history;
pub mod pair;
pub(crate) mod served;
pub mod shared;
pub mod writer;

pub use served::Programs;
