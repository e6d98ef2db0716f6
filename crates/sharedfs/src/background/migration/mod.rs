//! Migration: content of files moves from one tier to another, while programs go on (Ziggurat, §5).
//!
//! | file | idea |
//! |---|---|
//! | `part` | which blocks of a file move together |
//! | `copying` | copies them to new blocks of another tier, and flushes these |
//! | `moving` | one transaction makes the copies the file's blocks |
//! | `watched` | a digest may change the file meanwhile |
//! | `by_hand` | content moves because a command asks for it |
//! | `pins` | content goes to the tier that users pinned it to |
//! | `coldness` | policy: which files go first |
//! | `candidates` | the coldest files of a tier |
//! | `mover` | the state of the thread that moves them down: how urgent it is, and which file is next |
//! | `waking` | the thread sleeps, and a digest wakes it |
//! | `demoting` | moves them down, a part at a time |
//!
//! The copy holds no lock and no lease, so programs read and write the file meanwhile. Before the transaction the mover takes the
//! file's lease: the sessions that had it are fenced, and so none of them knows an address any more. If a digest changed the file since
//! the copy began, the copy is thrown away.
//!
//! A crash before the transaction leaves the file as it was, for the new blocks are free again. A crash behind it finds the file moved.

mod by_hand;
mod candidates;
mod coldness;
mod copying;
mod demoting;
mod mover;
mod moving;
mod part;
mod pins;
mod waking;
mod watched;

use mover::Mover;
use parking_lot::Mutex;
use pins::Bringer;
pub(crate) use pins::Pins;
use waking::Waking;
pub(crate) use watched::Watched;

/// The state of the migration of a store.
#[derive(Debug, Default)]
pub(crate) struct Migration {
    /// Held while one part of a file moves: one part does so at a time.
    one: Mutex<()>,
    pub(crate) watched: Watched,
    mover: Mutex<Mover>,
    waking: Waking,
    pub(crate) pins: Pins,
    bringer: Mutex<Bringer>,
}
