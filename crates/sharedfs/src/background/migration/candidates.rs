//! The files of a tier that were warm longest ago, found by a look at all inodes.

use super::coldness::warm_at;
use crate::metadata::{ExtentList, MetadataError, Snapshot, StoredInode};
use cuesta_format::{Extent, InodeNumber, TierNumber, Timestamp};
use std::collections::BinaryHeap;

/// So many are kept of one look.
const KEPT_MAX: usize = 1 << 16;
/// Extents in the table of files are looked at in pieces of so many blocks.
const PIECE_BLOCKS: u64 = 1 << 16;

/// Files that may move, the coldest one last.
#[derive(Debug, Default)]
pub(super) struct Candidates(Vec<(Timestamp, InodeNumber)>);

impl Candidates {
    /// The coldest files that have blocks in a tier and were not warm since `before`.
    pub(super) fn find(
        snapshot: &Snapshot,
        tier: TierNumber,
        now: Timestamp,
        before: Timestamp,
    ) -> Result<Candidates, MetadataError> {
        let mut coldest = BinaryHeap::new();
        let mut in_table = Vec::new();
        snapshot.visit_inodes(|stored| {
            let Some(at) = warm_at(&stored.record, now).filter(|&at| at <= before) else { return };
            let is_warmer = |&(warmest, _): &(Timestamp, InodeNumber)| at >= warmest;
            if coldest.len() >= KEPT_MAX && coldest.peek().is_some_and(is_warmer) {
                return;
            }
            let StoredInode { record, extents } = stored;
            match extents {
                ExtentList::Inline(extents) if lies_in(&extents, tier) => {
                    keep(&mut coldest, (at, record.inode));
                }
                ExtentList::Inline(_) => {}
                ExtentList::Table => in_table.push((at, record.inode)),
            }
        })?;
        for (at, inode) in in_table {
            if has_blocks_in(snapshot, inode, tier)? {
                keep(&mut coldest, (at, inode));
            }
        }
        let mut found = coldest.into_sorted_vec();
        found.reverse();
        Ok(Candidates(found))
    }

    /// The coldest one that is left.
    pub(super) fn next(&mut self) -> Option<InodeNumber> {
        self.0.pop().map(|(_, inode)| inode)
    }
}

fn keep(coldest: &mut BinaryHeap<(Timestamp, InodeNumber)>, file: (Timestamp, InodeNumber)) {
    coldest.push(file);
    if coldest.len() > KEPT_MAX {
        coldest.pop();
    }
}

fn lies_in(extents: &[Extent], tier: TierNumber) -> bool {
    extents.iter().any(|extent| extent.address.tier() == tier)
}

fn has_blocks_in(snapshot: &Snapshot, inode: InodeNumber, tier: TierNumber) -> Result<bool, MetadataError> {
    let mut at = 0;
    loop {
        let extents = snapshot.extents(inode, at..at + PIECE_BLOCKS)?;
        if lies_in(&extents, tier) {
            return Ok(true);
        }
        at += PIECE_BLOCKS;
        if extents.is_empty() {
            match snapshot.extents(inode, at..u64::MAX)?.first() {
                Some(next) => at = next.file_block,
                None => return Ok(false),
            }
        }
    }
}
