//! Policy: whether the payload of a write goes into the log, or straight into blocks where it stays, and of which tier.
//!
//! | destination | for |
//! |---|---|
//! | the log | short writes, and overwrites that would break a file into fragments |
//! | blocks of the fast tier | long writes that a program waits for, or that may not stay long |
//! | blocks of the tier below | long writes that no program waits for, where writes stay long (Ziggurat §4) |
//!
//! A staged write is written once. The log's payload is written twice: into the log, and by the digest. But a staged
//! block is a fresh one, so small overwrites by this way would break a file into fragments, and the whole blocks of a
//! short write are not worth a call to the kernel.

use super::predictions::Prediction;
use cuesta_format::{BLOCK_BYTES, TierNumber};

/// A write over content is staged from so many times as many bytes on.
const OVERWRITES_PART: u64 = 2;

/// The tier below the fast one.
pub(crate) const TIER_BELOW: TierNumber = TierNumber(1);

/// Where payload goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Into the log.
    Log,
    /// Into blocks of a window of this tier; only the entry goes into the log.
    Staged(TierNumber),
}

/// The sizes of writes that are staged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    /// Whole blocks of the least write.
    blocks_least: u64,
}

impl Thresholds {
    /// Those of a store that says how many bytes the whole blocks of a write have at least. `None`: nothing is staged.
    #[inline]
    pub(crate) fn of(stage_bytes: u32) -> Option<Thresholds> {
        (stage_bytes > 0).then_some(Thresholds { blocks_least: u64::from(stage_bytes).div_ceil(BLOCK_BYTES) })
    }

    /// Whether a write of so many bytes may be staged.
    #[inline]
    pub(crate) fn allow(self, bytes: usize) -> bool {
        bytes as u64 >= self.blocks_least * BLOCK_BYTES
    }

    /// The destination of a write with so many whole blocks. `overwrites`: some of them hold content. In a store with
    /// one tier nothing is predicted.
    pub(crate) fn destination(
        self,
        whole_blocks: u64,
        overwrites: bool,
        prediction: Option<Prediction>,
    ) -> Destination {
        let least = if overwrites { OVERWRITES_PART * self.blocks_least } else { self.blocks_least };
        if whole_blocks < least {
            return Destination::Log;
        }
        match prediction {
            Some(Prediction { is_synchronous: false, is_large: true }) => Destination::Staged(TIER_BELOW),
            _ => Destination::Staged(TierNumber::FAST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_writes_are_staged_and_overwrites_only_if_they_are_larger() {
        assert!(Thresholds::of(0).is_none());
        let thresholds = Thresholds::of(64 << 10).unwrap();
        assert!(thresholds.allow(64 << 10) && !thresholds.allow((64 << 10) - 1));
        let fast = Destination::Staged(TierNumber::FAST);
        let added = [15, 16].map(|blocks| thresholds.destination(blocks, false, None));
        assert_eq!(added, [Destination::Log, fast]);
        let over = [31, 32].map(|blocks| thresholds.destination(blocks, true, None));
        assert_eq!(over, [Destination::Log, fast]);
    }

    #[test]
    fn what_is_large_and_not_waited_for_goes_below() {
        let thresholds = Thresholds::of(64 << 10).unwrap();
        let destination = |is_synchronous, is_large| {
            thresholds.destination(16, false, Some(Prediction { is_synchronous, is_large }))
        };
        let fast = Destination::Staged(TierNumber::FAST);
        assert_eq!(destination(false, true), Destination::Staged(TIER_BELOW));
        assert_eq!([destination(true, true), destination(true, false), destination(false, false)], [fast; 3]);
    }
}
