//! The policies learn what was written, as digests noted it, and what was read, as far as sessions tell.

use super::mover::{Border, Mover, moment, side};
use super::uses::Change;
use crate::SharedFs;
use crate::tiers::blocks_in;
use cuesta_format::seen_reads::SeenRead;
use cuesta_format::{InodeNumber, TierNumber};
use cuesta_media::clock;
use cuesta_placement::{Moment, Side};
use std::ops::Range;

/// A read of so many blocks touches one piece after the other, so it says nothing of how often.
const SEEN_BLOCKS_MAX: u64 = 1 << 12;

impl SharedFs {
    /// Tells the policies all that happened since the last time. Answers how many reads there were.
    pub(super) fn learn(&self, mover: &mut Mover) -> usize {
        self.begin_borders(mover);
        let now = moment(clock::now());
        for change in self.migration.uses.take() {
            match change {
                Change::Written { inode, blocks, tier } => {
                    each(mover, tier, |border, side| {
                        for piece in border.pieces(inode, &blocks) {
                            border.policy.written(piece, side, now);
                        }
                    });
                }
                Change::Removed(inode) => {
                    mover.borders.iter_mut().for_each(|border| border.policy.forget_from(inode, 0));
                }
            }
        }
        let mut reads = Vec::new();
        for session in self.core.lock().sessions.values() {
            session.control.visit_new_reads(|read| reads.push(read));
        }
        reads.iter().for_each(|read| note_read(mover, read, now));
        reads.len()
    }

    fn begin_borders(&self, mover: &mut Mover) {
        let Some(kind) = self.options.migration.policy().filter(|_| mover.borders.is_empty()) else { return };
        self.migration.uses.want();
        let upper = (0..self.arenas.tiers_count() - 1).map(TierNumber);
        let blocks = upper.map(|tier| self.arenas.tier(tier).map_or(0, blocks_in));
        mover.borders = blocks.map(|blocks| Border::new(kind, blocks, self.options.cold_seconds)).collect();
    }
}

fn note_read(mover: &mut Mover, read: &SeenRead, now: Moment) {
    // What sessions say may be anything.
    let SeenRead { inode, block, blocks, tier } = *read;
    if inode == InodeNumber::NONE || blocks == 0 {
        return;
    }
    let blocks: Range<u64> = block..block + u64::from(blocks).min(SEEN_BLOCKS_MAX);
    each(mover, tier, |border, side| {
        for piece in border.pieces(inode, &blocks) {
            border.policy.read(piece, side, 1, now);
        }
    });
}

/// Visits the borders that know content of a tier.
fn each(mover: &mut Mover, tier: TierNumber, mut visit: impl FnMut(&mut Border, Side)) {
    for (upper, border) in mover.borders.iter_mut().enumerate() {
        if let Some(side) = side(TierNumber(upper as u8), tier) {
            visit(border, side);
        }
    }
}
