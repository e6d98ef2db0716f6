//! Migration: content of files moves from one tier to another, while programs go on (Ziggurat, §5).
//!
//! | file | idea |
//! |---|---|
//! | `part` | which blocks of a file move together |
//! | `copying` | copies them to new blocks of another tier, and flushes these |
//! | `moving` | one transaction makes the copies the file's blocks |
//! | `keeping` | copies stay beside the file's blocks, or are dropped |
//! | `watched` | a digest may change the file meanwhile |
//! | `history` | the last moves of files, with their reasons |
//! | `explaining` | tells of them, and of the rule for content of a file |
//! | `by_hand` | content moves because a command asks for it |
//! | `by_itself` | cold content moves down and hot content comes up, while no command asks for it |
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
mod explaining;
mod history;
mod keeping;
mod moving;
mod part;
mod pins;
mod watched;

pub(crate) use by_itself::{Change, Uses};
use by_itself::{Mover, Waking};
use cuesta_format::TierNumber;
use cuesta_placement::Level;
pub(crate) use history::{History, Reason};
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
    pub(crate) history: History,
    /// How urgent it is in each tier, and the low mark, as the mover saw it last.
    levels: Mutex<(Vec<Level>, u64)>,
    bringer: Mutex<Bringer>,
    /// Some block of a lower tier had a copy in the fast one.
    has_copied: AtomicBool,
}

impl Migration {
    /// The mover looked how urgent it is.
    fn show_levels(&self, levels: &[Level], low_mark: u64) {
        let mut shown = self.levels.lock();
        shown.0.clear();
        shown.0.extend_from_slice(levels);
        shown.1 = low_mark;
    }

    /// How urgent it is in a tier, and the low mark, in thousandths.
    fn level(&self, tier: TierNumber) -> (Level, u64) {
        let shown = self.levels.lock();
        (shown.0.get(usize::from(tier.0)).copied().unwrap_or_default(), shown.1)
    }

    /// `false`: no block has a copy, and none had.
    pub(crate) fn may_have_copies(&self) -> bool {
        self.has_copied.load(Ordering::Acquire)
    }
}
