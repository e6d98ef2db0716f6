//! Migration: content of files moves from one tier to another, while programs go on (Ziggurat, §5).
//!
//! | file | idea |
//! |---|---|
//! | `part` | which blocks of a file move together |
//! | `copying` | copies them to new blocks of another tier, and flushes these |
//! | `moving` | one transaction makes the copies the file's blocks |
//! | `keeping` | copies stay beside the file's blocks, or are dropped |
//! | `watched` | a digest may change the file meanwhile |
//! | `by_itself` | cold content moves down and hot content comes up, without anybody asking |
//! | `by_hand` | content moves because a command asks for it |
//! | `pins` | content goes to the tier that users pinned it to |
//!
//! The copy holds no lock and no lease, so programs read and write the file meanwhile. Before the transaction the mover takes the
//! file's lease: the sessions that had it are fenced, and so none of them knows an address any more. If a digest changed the file since
//! the copy began, the copy is thrown away.
//!
//! A crash before the transaction leaves the file as it was, for the new blocks are free again. A crash behind it finds the file moved.

mod by_hand;
mod by_itself;
mod copying;
mod keeping;
mod moving;
mod part;
mod pins;
mod watched;

pub(crate) use by_itself::{Change, Uses};
use by_itself::{Mover, Waking};
use parking_lot::Mutex;
use pins::Bringer;
pub(crate) use pins::Pins;
use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use watched::Watched;

/// The state of the migration of a store.
#[derive(Debug, Default)]
pub(crate) struct Migration {
    /// Held while one part of a file moves: one part does so at a time.
    one: Mutex<()>,
    pub(crate) watched: Watched,
    pub(crate) uses: Uses,
    mover: Mutex<Mover>,
    waking: Waking,
    pub(crate) pins: Pins,
    bringer: Mutex<Bringer>,
    /// Some block of a lower tier had a copy in the fast one.
    has_copied: AtomicBool,
}

impl Migration {
    /// `false`: no block has a copy, and none had.
    pub(crate) fn may_have_copies(&self) -> bool {
        self.has_copied.load(Ordering::Acquire)
    }
}
