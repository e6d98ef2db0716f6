//! The state of the thread that moves content down, between two parts.

use super::candidates::Candidates;
use cuesta_format::{InodeNumber, TierNumber};
use cuesta_placement::Level;
use std::time::Duration;

/// The mover, between two parts.
#[derive(Debug, Default)]
pub(super) struct Mover {
    /// How urgent it is, of each tier.
    pub(super) levels: Vec<Level>,
    /// Files that may leave a tier.
    pub(super) candidates: Option<(TierNumber, Candidates)>,
    /// The file that it is at, and the next block.
    pub(super) current: Option<(InodeNumber, u64)>,
    /// How long it waits if it finds nothing again.
    pub(super) look_again: Duration,
    /// Bytes that sessions had read and written the last time,
    pub(super) seen: (u64, u64),
    /// and in the time before, of which the last part counts most.
    pub(super) recent: (u64, u64),
    pub(super) low_mark: u64,
}
