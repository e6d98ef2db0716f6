//! Copies hot content of lower tiers into the fast one, some pieces at a time, as the policy of the fast tier says. Their homes stay, so that
//! such a copy can be dropped without writing anything.

use super::demoting::unless_gone;
use super::mover::{Mover, moment};
use crate::background::migration::Reason;
use crate::background::migration::moving::Home;
use crate::background::migration::part::{PART_BLOCKS, Place, Which};
use crate::{Error, SharedFs};
use cuesta_format::TierNumber;
use cuesta_format::wire::MoveCause;
use cuesta_media::clock;
use cuesta_placement::Side;
use std::sync::atomic::Ordering;

impl SharedFs {
    /// Copies the pieces up that the policy chooses, a batch of them, and answers their blocks.
    pub(super) fn promote(&self, mover: &mut Mover) -> Result<u64, Error> {
        let Some((used, all)) = self.usage(TierNumber::FAST) else { return Ok(0) };
        let below = |mark: u64| (mark * all / 1000).saturating_sub(used);
        // In the middle between the low mark and the whole tier the mover is in haste to make room.
        let (free, most) = (below(mover.low_mark), below(u64::midpoint(mover.low_mark, 1000)));
        let Some(border) = mover.borders.first_mut().filter(|_| most > 0) else { return Ok(0) };
        let now = moment(clock::now());
        let batch = border.batch(
            |policy| self.migration.pins.unpinned(|| policy.next_up(now, free > 0)),
            PART_BLOCKS.min(most),
        );
        let mut blocks = 0;
        for pieces in batch.chunk_by(|left, right| left.piece.inode == right.piece.inode) {
            let Some(first) = pieces.first() else { continue };
            let (inode, reason) =
                (first.piece.inode, Reason::chosen(MoveCause::Hot, first.rule, first.score));
            let ranges = border.ranges(pieces);
            let (place, way) = (Place::In(&ranges), (Which::Elsewhere, TierNumber::FAST));
            let moved =
                unless_gone(self.move_blocks(inode, place, way, Home::Stays, reason))?.unwrap_or_default();
            if moved.blocks > 0 {
                pieces.iter().for_each(|choice| border.policy.placed(choice.piece, Side::Upper, now));
            }
            blocks += moved.blocks;
            if moved.is_full {
                break;
            }
        }
        self.counters.blocks_promoted.fetch_add(blocks, Ordering::Relaxed);
        Ok(blocks)
    }
}
