//! Policy: whether the payload of a write goes into the log, or straight into blocks where it stays, and of which tier.
//!
//! | destination | for |
//! |---|---|
//! | the log | short writes, and overwrites that would break a file into fragments |
//! | blocks of the fast tier | long writes that a program waits for, or that may not stay long; whole blocks of a long stream of short writes, on a disk |
//! | blocks of the tier below | long writes that no program waits for, where writes stay long (Ziggurat §4) |
//!
//! A staged write is written once. The log's payload is written twice: into the log, and by the digest. But a staged
//! block is a fresh one, so small overwrites by this way would break a file into fragments, and the whole blocks of a
//! short write are not worth a call to the kernel.

use super::predictions::Prediction;
use cuesta_format::{BLOCK_BYTES, TierNumber};

/// A write over content is staged from so many times as many bytes on.
const OVERWRITES_PART: u64 = 2;
/// Short writes are staged once their stream is so many times as long as the least long write: 1 MiB.
const STREAM_PART: u64 = 16;

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

    /// Whether a write of so many bytes is long enough to be staged.
    #[inline]
    pub(crate) fn is_long(self, bytes: usize) -> bool {
        bytes as u64 >= self.blocks_least * BLOCK_BYTES
    }

    /// Whether a write of whole blocks may be staged behind a stream of so many bytes, however short it is.
    #[inline]
    pub(crate) fn is_streamed(self, bytes: usize, stream_bytes: u64) -> bool {
        stream_bytes >= STREAM_PART * self.blocks_least * BLOCK_BYTES
            && (bytes as u64).is_multiple_of(BLOCK_BYTES)
    }

    /// The destination of a write with so many whole blocks. `overwrites`: some of them hold content. `streams`: the
    /// write goes on with a stream, and consists of whole blocks. In a store with one tier nothing is predicted.
    pub(crate) fn destination(
        self,
        whole_blocks: u64,
        (overwrites, streams): (bool, bool),
        prediction: Option<Prediction>,
    ) -> Destination {
        let least = if overwrites { OVERWRITES_PART * self.blocks_least } else { self.blocks_least };
        if whole_blocks < least {
            let is_staged = streams && !overwrites;
            return if is_staged { Destination::Staged(TierNumber::FAST) } else { Destination::Log };
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
        assert!(thresholds.is_long(64 << 10) && !thresholds.is_long((64 << 10) - 1));
        let fast = Destination::Staged(TierNumber::FAST);
        let added = [15, 16].map(|blocks| thresholds.destination(blocks, (false, false), None));
        assert_eq!(added, [Destination::Log, fast]);
        let over = [31, 32].map(|blocks| thresholds.destination(blocks, (true, false), None));
        assert_eq!(over, [Destination::Log, fast]);
    }

    #[test]
    fn whole_blocks_of_a_stream_are_staged_unless_they_overwrite() {
        let thresholds = Thresholds::of(64 << 10).unwrap();
        assert!(thresholds.is_streamed(4096, 1 << 20) && !thresholds.is_streamed(4096, (1 << 20) - 1));
        assert!(!thresholds.is_streamed(5000, 1 << 20), "its last block would be another fragment");
        let destination = |overwrites| thresholds.destination(1, (overwrites, true), None);
        assert_eq!(destination(false), Destination::Staged(TierNumber::FAST));
        assert_eq!(destination(true), Destination::Log);
    }

    #[test]
    fn what_is_large_and_not_waited_for_goes_below() {
        let thresholds = Thresholds::of(64 << 10).unwrap();
        let destination = |is_synchronous, is_large| {
            thresholds.destination(16, (false, false), Some(Prediction { is_synchronous, is_large }))
        };
        let fast = Destination::Staged(TierNumber::FAST);
        assert_eq!(destination(false, true), Destination::Staged(TIER_BELOW));
        assert_eq!([destination(true, true), destination(true, false), destination(false, false)], [fast; 3]);
    }
}
