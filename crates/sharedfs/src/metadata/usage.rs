//! How what users own changes within a transaction: counted as inodes come, go, grow and change hands.

use super::keys::{LIMITS, USAGE};
use super::{MetadataError, Snapshot};
use crate::metadata::guard::Tree;
use cuesta_format::InodeRecord;
use cuesta_format::quota::Amounts;
use std::collections::BTreeMap;

/// Changes, by user.
#[derive(Debug, Default)]
pub(super) struct UsageChanges {
    changes: BTreeMap<u32, Change>,
    limits: BTreeMap<u32, Amounts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Change {
    blocks: i64,
    inodes: i64,
}

impl UsageChanges {
    fn add(&mut self, uid: u32, blocks: i64, inodes: i64) {
        let change = self.changes.entry(uid).or_default();
        change.blocks += blocks;
        change.inodes += inodes;
    }

    /// An inode came.
    pub(super) fn come(&mut self, record: &InodeRecord) {
        self.add(record.uid, record.blocks as i64, 1);
    }

    /// An inode went.
    pub(super) fn go(&mut self, record: &InodeRecord) {
        self.add(record.uid, -(record.blocks as i64), -1);
    }

    /// An inode of the user has another number of blocks.
    pub(super) fn resize(&mut self, uid: u32, before: u64, after: u64) {
        self.add(uid, after as i64 - before as i64, 0);
    }

    /// What is kept of a user is wrong.
    pub(super) fn correct(&mut self, uid: u32, kept: Amounts, right: Amounts) {
        self.add(uid, right.blocks as i64 - kept.blocks as i64, right.inodes as i64 - kept.inodes as i64);
    }

    /// What a user may own at most.
    pub(super) fn limit(&mut self, uid: u32, limits: Amounts) {
        self.limits.insert(uid, limits);
    }

    /// What users own after it, of those it changes; nothing of whom owns nothing any more.
    pub(super) fn after(&self, base: &Snapshot) -> Result<Vec<(u32, Amounts)>, MetadataError> {
        let changed = self.changes.iter().filter(|(_, change)| change.blocks != 0 || change.inodes != 0);
        changed
            .map(|(&uid, change)| {
                let before = base.usage(uid)?;
                let blocks = before.blocks.saturating_add_signed(change.blocks);
                let inodes = before.inodes.saturating_add_signed(change.inodes);
                Ok((uid, Amounts { blocks, inodes }))
            })
            .collect()
    }

    /// Writes limits, and what users own then.
    pub(super) fn write(&self, tree: &Tree, after: &[(u32, Amounts)]) -> Result<(), MetadataError> {
        let amounts =
            [(USAGE, after.to_vec()), (LIMITS, self.limits.iter().map(|(&u, &l)| (u, l)).collect())];
        for (table, rows) in amounts {
            if rows.is_empty() {
                continue;
            }
            let mut table = tree.open_table(table)?;
            for (uid, amounts) in rows {
                if amounts == Amounts::NONE {
                    table.remove(uid)?;
                } else {
                    table.insert(uid, (amounts.blocks, amounts.inodes))?;
                }
            }
        }
        Ok(())
    }
}
