//! Content moves by itself: what is cold goes down when a tier is too full, and what is hot gets a copy in the fast tier.
//!
//! | file | idea |
//! |---|---|
//! | `uses` | what digests changed since the mover looked |
//! | `learning` | the policies learn what was written and read |
//! | `looking` | they learn of content that they forgot, by a look at all inodes |
//! | `coldness` | policy: what such a look finds |
//! | `mover` | the state of the thread that moves content |
//! | `waking` | the thread sleeps, and a digest wakes it |
//! | `demoting` | moves content down |
//! | `promoting` | copies content up |
//!
//! Which piece moves is for the policies of `cuesta_placement` to say, and so is when.

mod coldness;
mod demoting;
mod learning;
mod looking;
mod mover;
mod promoting;
mod uses;
mod waking;

pub(super) use mover::Mover;
pub(crate) use uses::{Change, Uses};
pub(super) use waking::Waking;
