//! A look at all inodes: the cold content of a tier that its policy does not know. It forgot it, or was not there when it was written.

use super::coldness::warm_at;
use super::mover::{Border, moment};
use crate::metadata::{ExtentList, MetadataError, Snapshot, StoredInode};
use cuesta_format::{Extent, InodeNumber, TierNumber, Timestamp};
use cuesta_placement::{Moment, Side};

/// Extents in the table of files are looked at in pieces of so many blocks.
const PIECE_BLOCKS: u64 = 1 << 16;

/// Tells the policy below a tier of the content there, as far as its files were not warm since `before`.
pub(super) fn look(
    snapshot: &Snapshot,
    tier: TierNumber,
    border: &mut Border,
    now: Timestamp,
    before: Timestamp,
) -> Result<(), MetadataError> {
    let mut in_table = Vec::new();
    snapshot.visit_inodes(|stored| {
        let Some(at) = warm_at(&stored.record, now).filter(|&at| at <= before) else { return };
        let StoredInode { record, extents } = stored;
        match extents {
            ExtentList::Inline(extents) => find(border, record.inode, &extents, tier, moment(at)),
            ExtentList::Table => in_table.push((at, record.inode)),
        }
    })?;
    for (at, inode) in in_table {
        let mut from = 0;
        loop {
            let extents = snapshot.extents(inode, from..from + PIECE_BLOCKS)?;
            find(border, inode, &extents, tier, moment(at));
            from += PIECE_BLOCKS;
            if extents.is_empty() {
                match snapshot.extents(inode, from..u64::MAX)?.first() {
                    Some(next) => from = next.file_block,
                    None => break,
                }
            }
        }
    }
    Ok(())
}

fn find(border: &mut Border, inode: InodeNumber, extents: &[Extent], tier: TierNumber, changed: Moment) {
    for extent in extents.iter().filter(|extent| extent.address.tier() == tier) {
        for piece in border.pieces(inode, &(extent.file_block..extent.end_block())) {
            border.policy.found(piece, Side::Upper, changed);
        }
    }
}
